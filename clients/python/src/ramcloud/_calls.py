"""What Client and AsyncClient share: each operation as a started call and what its results mean."""

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from ._native import NativeConditions, Operation, Options, lib
from .errors import ErrorCode, InvalidArgumentError, RamcloudError, error_of
from .types import Conditions, MultiKey, MultiObject, Object, Sum, Table

T = TypeVar("T")
Bytes = bytes | str

_IF_ABSENT, _IF_EXISTS, _UNLESS_VERSION, _UNLESS_NEWER = 1, 2, 4, 8


def bytes_of(data: Bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _id_of(table: Table | int) -> int:
    return table if isinstance(table, int) else table.id


def timeout_ms(timeout: float | None) -> int:
    """Seconds as the library wants them: None is the client's, infinity for ever."""
    if timeout is None:
        return 0
    if math.isinf(timeout) and timeout > 0:
        return -1
    if not timeout > 0:
        raise InvalidArgumentError(
            ErrorCode.INVALID_ARGUMENT, f"timeout is {timeout}; accepted are seconds above 0, math.inf and None"
        )
    return max(1, round(timeout * 1000))


def _native_rules(conditions: Conditions | None) -> NativeConditions:
    rules = NativeConditions(0, 0)
    if conditions is None:
        return rules
    if conditions.only_version and conditions.only_newer_than:
        raise InvalidArgumentError(
            ErrorCode.INVALID_ARGUMENT, "conditions: only_version and only_newer_than are both set; accepted is one"
        )
    if conditions.if_absent_fail:
        rules.flags |= _IF_ABSENT
    if conditions.if_exists_fail:
        rules.flags |= _IF_EXISTS
    if conditions.only_version:
        rules.flags |= _UNLESS_VERSION
        rules.version = conditions.only_version
    if conditions.only_newer_than:
        rules.flags |= _UNLESS_NEWER
        rules.version = conditions.only_newer_than
    return rules


def _error(result: Any) -> RamcloudError:
    return error_of(result.status, result.message.decode(errors="replace"))


def _checked(result: Any) -> Any:
    if result.status != 0:
        raise _error(result)
    return result


def _copy(address: int | None, size: int) -> bytes:
    return ctypes.string_at(address, size) if address and size else b""


class Call(Generic[T]):
    """A started call of the library. take() once it is done; free() always."""

    def __init__(self, pointer: int, decode: "Callable[[Call[T]], T]") -> None:
        self.pointer = pointer
        self._decode = decode

    def done(self) -> bool:
        return bool(lib.ramcloud_done(self.pointer))

    def take(self) -> T:
        return self._decode(self)

    def cancel(self) -> None:
        lib.ramcloud_cancel(self.pointer)

    def free(self) -> None:
        lib.ramcloud_free(self.pointer)
        self.pointer = 0

    def first(self) -> Any:
        return _checked(lib.ramcloud_wait(self.pointer).contents)

    def all(self) -> list[Any]:
        return [lib.ramcloud_at(self.pointer, i).contents for i in range(lib.ramcloud_count(self.pointer))]


def _version(call: Call[int]) -> int:
    return int(call.first().version)


def _table(call: Call[Table]) -> Table:
    result = call.first()
    return Table(result.table_id, _copy(result.key, result.key_size).decode())


def _tables(call: Call[list[Table]]) -> list[Table]:
    found = [_checked(result) for result in call.all()]
    return [Table(r.table_id, _copy(r.key, r.key_size).decode()) for r in found]


def _nothing(call: Call[None]) -> None:
    call.first()


def _page(call: Call[list[Object]]) -> list[Object]:
    found = [_checked(result) for result in call.all()]
    return [Object(_copy(r.key, r.key_size), _copy(r.value, r.value_size), r.version) for r in found]


def closed() -> RamcloudError:
    return InvalidArgumentError(ErrorCode.INVALID_ARGUMENT, "the client is closed")


class Native:
    """The library's client; every function starts a call."""

    def __init__(self, cluster: str, timeout: float | None, poll: float) -> None:
        message = ctypes.create_string_buffer(500)
        options = Options(timeout_ms(timeout), round(poll * 1e6))
        self.pointer = lib.ramcloud_connect(cluster.encode(), ctypes.byref(options), message, len(message))
        if not self.pointer:
            raise InvalidArgumentError(ErrorCode.INVALID_ARGUMENT, message.value.decode(errors="replace"))

    def close(self) -> None:
        if self.pointer:
            lib.ramcloud_close(self.pointer)
        self.pointer = None

    def _open(self) -> int:
        if not self.pointer:
            raise closed()
        return int(self.pointer)

    def event_fd(self) -> int:
        return int(lib.ramcloud_event_fd(self._open()))

    def poll(self) -> float:
        """Does what is ready; gives after how many seconds it must be called again."""
        return int(lib.ramcloud_poll(self._open())) / 1e6

    def next_done(self) -> int | None:
        """The pointer of a call that is done, each once; None: there is no other."""
        pointer: int | None = lib.ramcloud_next_done(self._open())
        return pointer

    def create_table(self, name: str, span: int, timeout: float | None) -> Call[Table]:
        text = name.encode()
        return Call(lib.ramcloud_create_table(self._open(), text, len(text), span, timeout_ms(timeout)), _table)

    def open_table(self, name: str, timeout: float | None) -> Call[Table]:
        text = name.encode()
        return Call(lib.ramcloud_open_table(self._open(), text, len(text), timeout_ms(timeout)), _table)

    def drop_table(self, name: str, timeout: float | None) -> Call[None]:
        text = name.encode()
        return Call(lib.ramcloud_drop_table(self._open(), text, len(text), timeout_ms(timeout)), _nothing)

    def list_tables(self, timeout: float | None) -> Call[list[Table]]:
        return Call(lib.ramcloud_list_tables(self._open(), timeout_ms(timeout)), _tables)

    def read(self, table: Table | int, key: Bytes, rules: Conditions | None, timeout: float | None) -> Call[Object]:
        k = bytes_of(key)

        def decode(call: Call[Object]) -> Object:
            result = call.first()
            return Object(k, _copy(result.value, result.value_size), result.version)

        native = _native_rules(rules)
        pointer = lib.ramcloud_read(self._open(), _id_of(table), k, len(k), ctypes.byref(native), timeout_ms(timeout))
        return Call(pointer, decode)

    def write(
        self, table: Table | int, key: Bytes, value: Bytes, rules: Conditions | None, timeout: float | None
    ) -> Call[int]:
        k, v, native = bytes_of(key), bytes_of(value), _native_rules(rules)
        pointer = lib.ramcloud_write(
            self._open(), _id_of(table), k, len(k), v, len(v), ctypes.byref(native), timeout_ms(timeout)
        )
        return Call(pointer, _version)

    def remove(self, table: Table | int, key: Bytes, rules: Conditions | None, timeout: float | None) -> Call[int]:
        k, native = bytes_of(key), _native_rules(rules)
        pointer = lib.ramcloud_remove(
            self._open(), _id_of(table), k, len(k), ctypes.byref(native), timeout_ms(timeout)
        )
        return Call(pointer, _version)

    def increment(
        self, table: Table | int, key: Bytes, delta: int, rules: Conditions | None, timeout: float | None
    ) -> Call[Sum[int]]:
        if not -(2**63) <= delta < 2**63:
            raise InvalidArgumentError(
                ErrorCode.INVALID_ARGUMENT, f"delta is {delta}; accepted are integers of 64 bits, signed"
            )
        k, native = bytes_of(key), _native_rules(rules)

        def decode(call: Call[Sum[int]]) -> Sum[int]:
            result = call.first()
            return Sum(int(result.integer), result.version)

        pointer = lib.ramcloud_increment(
            self._open(), _id_of(table), k, len(k), delta, ctypes.byref(native), timeout_ms(timeout)
        )
        return Call(pointer, decode)

    def increment_double(
        self, table: Table | int, key: Bytes, delta: float, rules: Conditions | None, timeout: float | None
    ) -> Call[Sum[float]]:
        k, native = bytes_of(key), _native_rules(rules)

        def decode(call: Call[Sum[float]]) -> Sum[float]:
            result = call.first()
            return Sum(float(result.number), result.version)

        pointer = lib.ramcloud_increment_double(
            self._open(), _id_of(table), k, len(k), delta, ctypes.byref(native), timeout_ms(timeout)
        )
        return Call(pointer, decode)

    def multi_read(self, items: Sequence[MultiKey], timeout: float | None) -> Call[list[Object | RamcloudError]]:
        keys = [bytes_of(item.key) for item in items]

        def decode(call: Call[list[Object | RamcloudError]]) -> list[Object | RamcloudError]:
            return [
                _error(r) if r.status else Object(k, _copy(r.value, r.value_size), r.version)
                for k, r in zip(keys, call.all(), strict=True)
            ]

        return Call(self._multi(lib.ramcloud_multi_read, items, timeout), decode)

    def multi_write(self, items: Sequence[MultiObject], timeout: float | None) -> Call[list[int | RamcloudError]]:
        return Call(self._multi(lib.ramcloud_multi_write, items, timeout), _versions)

    def multi_remove(self, items: Sequence[MultiKey], timeout: float | None) -> Call[list[int | RamcloudError]]:
        return Call(self._multi(lib.ramcloud_multi_remove, items, timeout), _versions)

    def _multi(self, start: Any, items: Sequence[MultiKey | MultiObject], timeout: float | None) -> int:
        operations = (Operation * len(items))()
        kept = []  # until the library has copied them
        for operation, item in zip(operations, items, strict=True):
            key = bytes_of(item.key)
            value = bytes_of(item.value) if isinstance(item, MultiObject) else b""
            kept.append((key, value))
            operation.table_id = _id_of(item.table)
            operation.key, operation.key_size = key, len(key)
            operation.value, operation.value_size = value, len(value)
            operation.conditions = _native_rules(item.conditions)
        return int(start(self._open(), operations, len(items), timeout_ms(timeout)))

    def scan(self, table: Table | int, keys_only: bool) -> "NativeScan":
        return NativeScan(self, lib.ramcloud_scan_begin(self._open(), _id_of(table), int(keys_only)))


def _versions(call: Call[list[int | RamcloudError]]) -> list[int | RamcloudError]:
    return [_error(r) if r.status else int(r.version) for r in call.all()]


class NativeScan:
    """A scan of the library; an empty page is the end."""

    def __init__(self, native: Native, pointer: int) -> None:
        self._native = native
        self._pointer = pointer

    def next_page(self, timeout: float | None) -> Call[list[Object]]:
        self._native._open()  # the scan outlives the client, but without the client it makes no
                              # progress
        return Call(lib.ramcloud_scan_next(self._pointer, timeout_ms(timeout)), _page)

    def end(self) -> None:
        lib.ramcloud_scan_end(self._pointer)

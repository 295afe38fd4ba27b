"""libramcloud.so by ctypes: its functions with their types (node/include/ramcloud/ramcloud_c.h)."""

import ctypes
import os
import pathlib
from ctypes import POINTER, Structure, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

ABI_VERSION = 2


class Options(Structure):
    _fields_ = [("size", c_size_t), ("timeout_ms", c_int64), ("poll_us", c_int64)]

    def __init__(self, timeout_ms: int, poll_us: int) -> None:
        super().__init__(ctypes.sizeof(Options), timeout_ms, poll_us)


class NativeConditions(Structure):
    _fields_ = [("flags", c_uint32), ("version", c_uint64)]


class Result(Structure):
    _fields_ = [
        ("status", c_int),
        ("message", c_char_p),
        ("version", c_uint64),
        ("key", c_void_p),
        ("key_size", c_size_t),
        ("value", c_void_p),
        ("value_size", c_size_t),
        ("integer", c_int64),
        ("number", c_double),
        ("table_id", c_uint64),
    ]


class Operation(Structure):
    _fields_ = [
        ("table_id", c_uint64),
        ("key", c_char_p),
        ("key_size", c_size_t),
        ("value", c_char_p),
        ("value_size", c_size_t),
        ("conditions", NativeConditions),
    ]


def _load() -> ctypes.CDLL:
    beside = pathlib.Path(__file__).parent / "_lib" / f"libramcloud.so.{ABI_VERSION}"
    path = os.environ.get("RAMCLOUD_LIBRARY", str(beside))
    library = ctypes.CDLL(path)
    client, call, scan, text, size = c_void_p, c_void_p, c_void_p, c_char_p, c_size_t
    rules, timeout = POINTER(NativeConditions), c_int64
    signatures: dict[str, tuple[object, list[object]]] = {
        "abi_version": (c_uint32, []),
        "status_name": (c_char_p, [c_int]),
        "connect": (c_void_p, [text, POINTER(Options), text, size]),
        "close": (None, [client]),
        "event_fd": (c_int, [client]),
        "poll": (c_int64, [client]),
        "done": (c_int, [call]),
        "next_done": (c_void_p, [client]),
        "wait": (POINTER(Result), [call]),
        "count": (c_size_t, [call]),
        "at": (POINTER(Result), [call, size]),
        "cancel": (None, [call]),
        "free": (None, [call]),
        "create_table": (c_void_p, [client, text, size, c_uint32, timeout]),
        "open_table": (c_void_p, [client, text, size, timeout]),
        "drop_table": (c_void_p, [client, text, size, timeout]),
        "list_tables": (c_void_p, [client, timeout]),
        "read": (c_void_p, [client, c_uint64, text, size, rules, timeout]),
        "write": (c_void_p, [client, c_uint64, text, size, text, size, rules, timeout]),
        "remove": (c_void_p, [client, c_uint64, text, size, rules, timeout]),
        "increment": (c_void_p, [client, c_uint64, text, size, c_int64, rules, timeout]),
        "increment_double": (c_void_p, [client, c_uint64, text, size, c_double, rules, timeout]),
        "multi_read": (c_void_p, [client, POINTER(Operation), size, timeout]),
        "multi_write": (c_void_p, [client, POINTER(Operation), size, timeout]),
        "multi_remove": (c_void_p, [client, POINTER(Operation), size, timeout]),
        "scan_begin": (c_void_p, [client, c_uint64, c_int]),
        "scan_next": (c_void_p, [scan, timeout]),
        "scan_end": (None, [scan]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, "ramcloud_" + name)
        function.restype = result
        function.argtypes = arguments
    version = library.ramcloud_abi_version()
    if version != ABI_VERSION:
        raise ImportError(f"{path} has ABI version {version}; accepted is {ABI_VERSION}")
    return library


lib = _load()

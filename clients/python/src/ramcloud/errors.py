"""Why a call failed: the codes of the protocol (docs/reference/errors.md), and an exception for most."""

import enum


class ErrorCode(enum.IntEnum):
    NOT_FOUND = 1
    EXISTS = 2
    WRONG_VERSION = 3
    INVALID_ARGUMENT = 4
    OUT_OF_MEMORY = 6
    UNAVAILABLE = 8
    DEADLINE_EXCEEDED = 9
    INDETERMINATE = 10
    CANCELLED = 11
    WRONG_CLUSTER = 14
    UNSUPPORTED = 16
    PROTOCOL_ERROR = 17
    CORRUPT = 18
    NO_SPACE = 19
    IO_ERROR = 20
    INTERNAL = 22


class RamcloudError(Exception):
    """A call failed. `code` says why, `message` is for people."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(f"{code.name}: {message}" if message else code.name)
        self.code = code
        self.message = message

    @property
    def name(self) -> str:
        """The code's name, for example "NOT_FOUND"."""
        return self.code.name


class NotFoundError(RamcloudError):
    """There is no such object or table."""


class ExistsError(RamcloudError):
    """It exists and must not."""


class WrongVersionError(RamcloudError):
    """A condition on the version failed."""


class InvalidArgumentError(RamcloudError):
    """It can never work; the message names field, value and what is accepted."""


class OutOfMemoryError(RamcloudError):
    """The server's log memory is full; reads and removes go on."""


class UnavailableError(RamcloudError):
    """The server is dead or nobody answered; nothing was changed."""


class DeadlineExceededError(RamcloudError):
    """No final answer in time; nothing was changed."""


class IndeterminateError(RamcloudError):
    """The reply was lost: it may or may not have happened."""


class CancelledError(RamcloudError):
    """It was cancelled: it may or may not have happened."""


_CLASSES: dict[ErrorCode, type[RamcloudError]] = {
    ErrorCode.NOT_FOUND: NotFoundError,
    ErrorCode.EXISTS: ExistsError,
    ErrorCode.WRONG_VERSION: WrongVersionError,
    ErrorCode.INVALID_ARGUMENT: InvalidArgumentError,
    ErrorCode.OUT_OF_MEMORY: OutOfMemoryError,
    ErrorCode.UNAVAILABLE: UnavailableError,
    ErrorCode.DEADLINE_EXCEEDED: DeadlineExceededError,
    ErrorCode.INDETERMINATE: IndeterminateError,
    ErrorCode.CANCELLED: CancelledError,
}


def error_of(status: int, message: str) -> RamcloudError:
    """The exception for a status of the library."""
    try:
        code = ErrorCode(status)
    except ValueError:
        return RamcloudError(ErrorCode.INTERNAL, f"status {status} is not known here: {message}")
    return _CLASSES.get(code, RamcloudError)(code, message)

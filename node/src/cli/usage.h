// Validators of arguments, and error messages for wrong command lines.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace ramcloud::cli {

/// A whole number from 1 to 2^64 - 1. (CLI11's own check accepts any number of digits.)
CLI::Validator positive();
/// The same; the message also tells where to find ids of recoveries.
CLI::Validator recovery_id();

/// A text that the coordinator records or compares: `min` to 255 printable bytes. It refuses
/// others, too, but not a request that is far larger: the connection does that, without a reason.
CLI::Validator recorded_text(size_t min);

/// The interval of repeated requests: a duration from 100ms to 1h.
CLI::Validator interval();

/// The message for a parsing error: names the unknown word with similar ones, and refers to the
/// command's help.
std::string usage_failure(const CLI::App* app, const CLI::Error& error);

/// The message that a command, or a command of a group, is missing.
std::string missing_command(const CLI::App& app);

}  // namespace ramcloud::cli

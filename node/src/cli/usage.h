// The accepted command lines, and the error messages for others.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace ramcloud::cli {

/// A whole number from 1 to 2^64 - 1. (CLI11's own check accepts any number of digits.)
CLI::Validator positive();
/// The same, and where the ids of recoveries are shown.
CLI::Validator recovery_id();

/// How often a command asks again: a duration from 100ms to 1h.
CLI::Validator interval();

/// What went wrong in parsing, as the commands say it: what is not known is named with what comes
/// near to it, and the help of the command is referred to.
std::string usage_failure(const CLI::App* app, const CLI::Error& error);

/// That a command, or one of a group's, is missing.
std::string missing_command(const CLI::App& app);

}  // namespace ramcloud::cli

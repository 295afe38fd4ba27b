// ramcloud put|get|del|incr|mget: objects by their keys.
#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <charconv>
#include <istream>
#include <iterator>
#include <limits>
#include <ostream>

#include "cli/formats/base64.h"
#include "cli/formats/output.h"
#include "cli/formats/record.h"
#include "cli/session.h"
#include "cli/usage.h"
#include "wire/message_header.h"

namespace ramcloud::cli {
namespace {

struct ObjectArguments {
  std::string table, key, value, delta = "1", number_type = "int64";
  std::vector<std::string> keys;
  bool key_b64 = false, raw = false, create_only = false, update_only = false,
       ignore_missing = false;
  uint64_t if_version = 0, if_newer_than = 0;
};

/// Decodes a typed key; INVALID_ARGUMENT also if it cannot be a key.
Result<std::string> key_of(const ObjectArguments& arguments, const std::string& typed) {
  std::string key = typed;
  if (arguments.key_b64) {
    auto decoded = base64_decode(typed);
    if (!decoded) return fail(StatusCode::kInvalidArgument, "KEY: " + decoded.error().message());
    key = std::move(*decoded);
  }
  if (Status bad = check_key(key); !bad.ok()) return fail(std::move(bad));
  return key;
}

/// Reads standard input to its end, but at most one byte more than a value may have.
Result<std::string> read_value(Session& session) {
  if (Status bad = session.take_input(); !bad.ok()) return fail(std::move(bad));
  std::string value(size_t{wire::kMaxValueBytes} + 1, '\0');
  session.in.read(value.data(), static_cast<std::streamsize>(value.size()));
  // After a read error the bytes are not a complete value.
  if (Status bad = session.input_status(); !bad.ok()) return fail(std::move(bad));
  value.resize(static_cast<size_t>(session.in.gcount()));
  return value;
}

wire::RejectRules rules_of(const ObjectArguments& arguments) {
  wire::RejectRules rules{};
  if (arguments.create_only) rules.flags |= wire::RejectRules::kIfExists;
  if (arguments.update_only) rules.flags |= wire::RejectRules::kIfAbsent;
  if (arguments.if_version != 0) {
    rules.flags |= wire::RejectRules::kIfVersionNotEqual;
    rules.version = arguments.if_version;
  }
  if (arguments.if_newer_than != 0) {
    rules.flags |= wire::RejectRules::kIfVersionAtMost;
    rules.version = arguments.if_newer_than;
  }
  return rules;
}

/// The beginning of every error message about an object.
std::string name_of(const ObjectArguments& arguments, const std::string& key) {
  return fmt::format("table '{}', key '{}'", arguments.table, printable(key.substr(0, 100)));
}

/// Opens the table, decodes the key, and runs `operation(table_id, key)`.
template <typename Operation>
int with_object(Session& session, const ObjectArguments& arguments, Operation operation) {
  const auto key = key_of(arguments, arguments.key);
  if (!key) return session.usage_error(key.error().message());
  auto table = open_table(session, arguments.table);
  if (!table) return session.report(table.error());
  return operation(table->table_id, *key);
}

void print_version(Session& session, uint64_t version) {
  session.out << (session.json() ? fmt::format("{{\"version\":{}}}\n", version)
                                 : fmt::format("version {}\n", version));
}

int put(Session& session, const ObjectArguments& arguments) {
  const Result<std::string> value =
      arguments.value == "-" ? read_value(session) : Result<std::string>(arguments.value);
  if (!value) return session.report_input(value.error());
  if (const Status bad = check_value(*value); !bad.ok()) return session.usage_error(bad.message());
  return with_object(session, arguments, [&](uint64_t table, const std::string& key) {
    auto version =
        session.client().run(session.core().write(table, key, *value, rules_of(arguments)));
    if (!version) return session.report(version.error(), name_of(arguments, key));
    print_version(session, *version);
    return int{kExitOk};
  });
}

int get(Session& session, const ObjectArguments& arguments) {
  return with_object(session, arguments, [&](uint64_t table, const std::string& key) {
    auto found = session.client().run(session.core().read(table, key, rules_of(arguments)));
    if (!found) return session.report(found.error(), name_of(arguments, key));
    if (arguments.raw) {
      session.out << found->value;
    } else if (session.json()) {
      session.out << format_record(key, found->value, {.version = found->version, .table_id = {}})
                  << '\n';
    } else {
      session.out << found->value << '\n';
    }
    return int{kExitOk};
  });
}

int del(Session& session, const ObjectArguments& arguments) {
  return with_object(session, arguments, [&](uint64_t table, const std::string& key) {
    auto version = session.client().run(session.core().remove(table, key, rules_of(arguments)));
    if (!version) return session.report(version.error(), name_of(arguments, key));
    if (*version == 0 && !arguments.ignore_missing) {
      return session.report({StatusCode::kNotFound, "there is no such object"},
                            name_of(arguments, key));
    }
    print_version(session, *version);
    return int{kExitOk};
  });
}

template <typename N>
std::optional<N> number_of(const std::string& text) {
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* end = text.data() + text.size();
  N number{};
  const auto [at, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || at != end) return std::nullopt;
  return number;
}

int incr(Session& session, const ObjectArguments& arguments) {
  const bool is_double = arguments.number_type == "double";
  uint64_t delta = 0;
  if (is_double) {
    const auto number = number_of<double>(arguments.delta);
    if (!number) {
      return session.usage_error(fmt::format(
          "DELTA is '{}'; accepted is a number, for example -0.5 or 1e9", arguments.delta));
    }
    delta = std::bit_cast<uint64_t>(*number);
  } else {
    const auto number = number_of<int64_t>(arguments.delta);
    if (!number) {
      return session.usage_error(fmt::format(
          "DELTA is '{}'; accepted is an integer from {} to {} (or any number with --as double)",
          arguments.delta, std::numeric_limits<int64_t>::min(),
          std::numeric_limits<int64_t>::max()));
    }
    delta = static_cast<uint64_t>(*number);
  }
  return with_object(session, arguments, [&](uint64_t table, const std::string& key) {
    const auto type = is_double ? wire::NumberType::kDouble : wire::NumberType::kInt64;
    auto sum = session.client().run(
        session.core().increment(table, key, type, delta, rules_of(arguments)));
    if (!sum) return session.report(sum.error(), name_of(arguments, key));
    const std::string value = is_double ? fmt::format("{}", std::bit_cast<double>(sum->bits))
                                        : fmt::format("{}", static_cast<int64_t>(sum->bits));
    session.out << (session.json()
                        ? fmt::format("{{\"value\":{},\"version\":{}}}\n", value, sum->version)
                        : value + '\n');
    return int{kExitOk};
  });
}

/// The keys of mget: from the arguments, or the lines of standard input.
Result<std::vector<std::string>> keys_of(Session& session, const ObjectArguments& arguments) {
  std::vector<std::string> keys;
  const auto add = [&](const std::string& typed) {
    auto key = key_of(arguments, typed);
    if (key) keys.push_back(std::move(*key));
    return key ? Status() : std::move(key.error());
  };
  if (arguments.keys.size() == 1 && arguments.keys[0] == "-") {
    if (Status bad = session.take_input(); !bad.ok()) return fail(std::move(bad));
    for (std::string line; std::getline(session.in, line);) {
      if (Status bad = add(line); !bad.ok()) {
        return fail(StatusCode::kInvalidArgument,
                    fmt::format("standard input, line {}: {}", keys.size() + 1, bad.message()));
      }
    }
    if (Status bad = session.input_status(); !bad.ok()) return fail(std::move(bad));
    return keys;
  }
  for (const std::string& typed : arguments.keys) {
    if (Status bad = add(typed); !bad.ok()) return fail(std::move(bad));
  }
  return keys;
}

int mget(Session& session, const ObjectArguments& arguments) {
  const auto keys = keys_of(session, arguments);
  if (!keys) return session.report_input(keys.error());
  auto table = open_table(session, arguments.table);
  if (!table) return session.report(table.error());
  std::vector<MultiOperation> operations;
  for (const std::string& key : *keys) operations.push_back({table->table_id, key, {}, {}});
  const auto found = session.client().run(session.core().multi_read(std::move(operations)));
  int code = kExitOk;
  for (size_t i = 0; i < found.size(); ++i) {
    const std::string& key = (*keys)[i];
    if (found[i]) {
      session.out << (session.json() ? format_record(key, found[i]->value,
                                                     {.version = found[i]->version, .table_id = {}})
                                     : printable(key) + '\t' + printable(found[i]->value))
                  << '\n';
    } else if (!arguments.ignore_missing || found[i].error().code() != StatusCode::kNotFound) {
      code = std::max(code, session.report(found[i].error(), name_of(arguments, key)));
    }
  }
  return code;
}

void add_key(CLI::App& command, ObjectArguments& arguments) {
  command.add_option("TABLE", arguments.table, "The table")->required();
  command.add_option("KEY", arguments.key, "The key: the bytes as typed")->required();
  command.add_flag("--key-b64", arguments.key_b64, "KEY is base64, for keys that are not text");
}

void add_version_conditions(CLI::App& command, ObjectArguments& arguments) {
  CLI::Option* version =
      command
          .add_option("--if-version", arguments.if_version,
                      "Fail with WRONG_VERSION unless the object has this version")
          ->check(positive());
  command
      .add_option("--if-newer-than", arguments.if_newer_than,
                  "Fail with WRONG_VERSION if the object's version is this or lower")
      ->check(positive())
      ->excludes(version);
}

void add_existence_conditions(CLI::App& command, ObjectArguments& arguments) {
  CLI::Option* create_only = command.add_flag("--create-only", arguments.create_only,
                                              "Fail with EXISTS if there is such an object");
  command
      .add_flag("--update-only", arguments.update_only,
                "Fail with NOT_FOUND if there is no such object")
      ->excludes(create_only);
}

void add_put(CLI::App& app, Session& session, std::shared_ptr<ObjectArguments> arguments) {
  CLI::App* command = app.add_subcommand("put", "Write one object; prints its new version");
  add_key(*command, *arguments);
  command->add_option("VALUE", arguments->value, "The value, or - for standard input's bytes")
      ->required();
  add_existence_conditions(*command, *arguments);
  add_version_conditions(*command, *arguments);
  command->footer(
      "Examples:\n"
      "  ramcloud put users alice '{\"age\": 41}'\n"
      "  ramcloud put photos alice - < alice.jpg\n"
      "  ramcloud put users bob 41 --if-version 7\n"
      "  ramcloud put users bob -- -41          # a value that begins with a dash\n");
  needs_cluster(*command, session, [&session, arguments] { return put(session, *arguments); });
}

void add_get(CLI::App& app, Session& session, std::shared_ptr<ObjectArguments> arguments) {
  CLI::App* command = app.add_subcommand("get", "Read one object");
  add_key(*command, *arguments);
  command->add_flag("--raw", arguments->raw, "Print the value's bytes and nothing else");
  add_version_conditions(*command, *arguments);
  command->footer(
      "Examples:\n"
      "  ramcloud get users alice\n"
      "  ramcloud get photos alice --raw > alice.jpg\n"
      "  ramcloud get users alice -o json       # with its version\n");
  needs_cluster(*command, session, [&session, arguments] { return get(session, *arguments); });
}

void add_del(CLI::App& app, Session& session, std::shared_ptr<ObjectArguments> arguments) {
  CLI::App* command = app.add_subcommand("del", "Delete one object; prints the version it had");
  add_key(*command, *arguments);
  add_version_conditions(*command, *arguments);
  command->add_flag("--ignore-missing", arguments->ignore_missing,
                    "A missing object is not an error");
  needs_cluster(*command, session, [&session, arguments] { return del(session, *arguments); });
}

void add_incr(CLI::App& app, Session& session, std::shared_ptr<ObjectArguments> arguments) {
  CLI::App* command = app.add_subcommand("incr", "Add to the number in an object; prints the sum");
  add_key(*command, *arguments);
  command->add_option("DELTA", arguments->delta, "Number to add; may be negative")
      ->default_str("1");
  command->add_option("--as", arguments->number_type, "Type of the number: int64 or double")
      ->type_name("TYPE")
      ->capture_default_str()
      ->check(CLI::IsMember({"int64", "double"}));
  add_existence_conditions(*command, *arguments);
  add_version_conditions(*command, *arguments);
  command->footer(
      "The object's value is 8 bytes, little-endian: an integer, which wraps around, or\n"
      "a double. A missing object counts as 0 and is created.\n\n"
      "Examples:\n"
      "  ramcloud incr counters visits\n"
      "  ramcloud incr counters visits 10\n"
      "  ramcloud incr counters visits -- -3    # a number that begins with a dash\n"
      "  ramcloud incr counters load 0.25 --as double\n");
  needs_cluster(*command, session, [&session, arguments] { return incr(session, *arguments); });
}

void add_mget(CLI::App& app, Session& session, std::shared_ptr<ObjectArguments> arguments) {
  CLI::App* command = app.add_subcommand("mget", "Read many objects at once");
  command->add_option("TABLE", arguments->table, "The table")->required();
  command->add_option("KEYS", arguments->keys, "The keys, or - for the lines of standard input")
      ->required();
  command->add_flag("--key-b64", arguments->key_b64, "KEYS are base64, for keys that are not text");
  command->add_flag("--ignore-missing", arguments->ignore_missing,
                    "Missing objects are not an error");
  command->footer(
      "Prints one line KEY<tab>VALUE for each object, in the order of KEYS, with unprintable bytes "
      "as\n"
      "\\xNN; with -o json one JSON object on each line, with its version. Keys that cannot be "
      "read\n"
      "are named on standard error; the others are printed.\n\n"
      "Examples:\n"
      "  ramcloud mget users alice bob\n"
      "  ramcloud scan users --keys-only | ramcloud mget users - -o json\n");
  needs_cluster(*command, session, [&session, arguments] { return mget(session, *arguments); });
}

}  // namespace

void add_object_commands(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<ObjectArguments>();
  add_put(app, session, arguments);
  add_get(app, session, arguments);
  add_mget(app, session, arguments);
  add_del(app, session, arguments);
  add_incr(app, session, arguments);
}

}  // namespace ramcloud::cli

// ramcloud put|get|del: single objects.
#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <istream>
#include <iterator>
#include <ostream>

#include "cli/base64.h"
#include "cli/output.h"
#include "cli/record.h"
#include "cli/session.h"
#include "wire/message_header.h"

namespace ramcloud::cli {
namespace {

struct ObjectArguments {
  std::string table, key, value;
  bool key_b64 = false, raw = false, create_only = false, update_only = false,
       ignore_missing = false;
  uint64_t if_version = 0;
};

Result<std::string> key_of(const ObjectArguments& arguments) {
  if (!arguments.key_b64) return arguments.key;
  auto key = base64_decode(arguments.key);
  if (!key) return fail(StatusCode::kInvalidArgument, "KEY: " + key.error().message());
  return key;
}

/// Standard input to its end, but never more than a value may have and one byte.
std::string read_value(std::istream& in) {
  std::string value(size_t{wire::kMaxValueBytes} + 1, '\0');
  in.read(value.data(), static_cast<std::streamsize>(value.size()));
  value.resize(static_cast<size_t>(in.gcount()));
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
  return rules;
}

/// What every error about an object begins with.
std::string name_of(const ObjectArguments& arguments, const std::string& key) {
  return fmt::format("table '{}', key '{}'", arguments.table, printable(key.substr(0, 100)));
}

/// Opens the table, decodes the key, and runs `operation(table_id, key)`.
template <typename Operation>
int with_object(Session& session, const ObjectArguments& arguments, Operation operation) {
  const auto key = key_of(arguments);
  if (!key) return session.usage_error(key.error().message());
  if (const Status bad = check_key(*key); !bad.ok()) return session.usage_error(bad.message());
  auto table = open_table(session, arguments.table);
  if (!table) return session.report(table.error());
  return operation(table->table_id, *key);
}

void print_version(Session& session, uint64_t version) {
  session.out << (session.json() ? fmt::format("{{\"version\":{}}}\n", version)
                                 : fmt::format("version {}\n", version));
}

int put(Session& session, const ObjectArguments& arguments) {
  const std::string value = arguments.value == "-" ? read_value(session.in) : arguments.value;
  if (const Status bad = check_value(value); !bad.ok()) return session.usage_error(bad.message());
  return with_object(session, arguments, [&](uint64_t table, const std::string& key) {
    auto version =
        session.client().run(session.core().write(table, key, value, rules_of(arguments)));
    if (!version) return session.report(version.error(), name_of(arguments, key));
    print_version(session, *version);
    return int{kExitOk};
  });
}

int get(Session& session, const ObjectArguments& arguments) {
  return with_object(session, arguments, [&](uint64_t table, const std::string& key) {
    auto found = session.client().run(session.core().read(table, key));
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

void add_key(CLI::App& command, ObjectArguments& arguments) {
  command.add_option("TABLE", arguments.table, "The table")->required();
  command.add_option("KEY", arguments.key, "The key: the bytes as typed")->required();
  command.add_flag("--key-b64", arguments.key_b64, "KEY is base64, for keys that are not text");
}

}  // namespace

void add_object_commands(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<ObjectArguments>();

  CLI::App* command = app.add_subcommand("put", "Write one object; prints its new version");
  add_key(*command, *arguments);
  command->add_option("VALUE", arguments->value, "The value, or - for standard input's bytes")
      ->required();
  CLI::Option* create_only =
      command->add_flag("--create-only", arguments->create_only, "Fail if the object exists");
  command->add_flag("--update-only", arguments->update_only, "Fail if there is no such object")
      ->excludes(create_only);
  command
      ->add_option("--if-version", arguments->if_version, "Fail unless the object has this version")
      ->check(CLI::PositiveNumber);
  command->footer(
      "Examples:\n"
      "  ramcloud put users alice '{\"age\": 41}'\n"
      "  ramcloud put photos alice - < alice.jpg\n"
      "  ramcloud put users bob 41 --if-version 7\n"
      "  ramcloud put users bob -- -41          # a value that begins with a dash\n");
  needs_cluster(*command, session, [&session, arguments] { return put(session, *arguments); });

  command = app.add_subcommand("get", "Read one object");
  add_key(*command, *arguments);
  command->add_flag("--raw", arguments->raw, "Print the value's bytes and nothing else");
  command->footer(
      "Examples:\n"
      "  ramcloud get users alice\n"
      "  ramcloud get photos alice --raw > alice.jpg\n"
      "  ramcloud get users alice -o json       # with its version\n");
  needs_cluster(*command, session, [&session, arguments] { return get(session, *arguments); });

  command = app.add_subcommand("del", "Delete one object; prints the version it had");
  add_key(*command, *arguments);
  command
      ->add_option("--if-version", arguments->if_version, "Fail unless the object has this version")
      ->check(CLI::PositiveNumber);
  command->add_flag("--ignore-missing", arguments->ignore_missing,
                    "It is no failure if there is no such object");
  needs_cluster(*command, session, [&session, arguments] { return del(session, *arguments); });
}

}  // namespace ramcloud::cli

// ramcloud completion: completion scripts, generated from the commands, so that they are always up
// to date.
#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <ostream>

#include "cli/session.h"

namespace ramcloud::cli {
namespace {

/// One command: its words ("table create"), and the words that may follow.
struct Node {
  std::string path;
  std::vector<std::pair<std::string, std::string>> commands;  // name, description
  std::vector<std::pair<std::string, std::string>> options;   // with dashes, description
};

void add_options(const CLI::App& app, Node& node) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      node.options.emplace_back("--" + name, option->get_description());
    }
    for (const std::string& name : option->get_snames()) {
      node.options.emplace_back("-" + name, option->get_description());
    }
  }
}

void collect(const CLI::App& root, const CLI::App& app, const std::string& path,
             std::vector<Node>& nodes) {
  Node node{path, {}, {}};
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    node.commands.emplace_back(command->get_name(), command->get_description());
  }
  add_options(app, node);
  if (&app != &root) {
    for (const CLI::Option* option : root.get_options()) {  // global options may be anywhere
      for (const std::string& name : option->get_lnames()) {
        if (name != "help" && name != "version") {
          node.options.emplace_back("--" + name, option->get_description());
        }
      }
    }
  }
  nodes.push_back(std::move(node));
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    collect(root, *command, path.empty() ? command->get_name() : path + " " + command->get_name(),
            nodes);
  }
}

std::string names(const std::vector<std::pair<std::string, std::string>>& list) {
  std::string text;
  for (const auto& [name, description] : list) text += (text.empty() ? "" : " ") + name;
  return text;
}

/// For text inside single quotes.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

/// The part that bash and zsh share: sets `path` to the command so far, `words` to what may follow.
std::string shell_cases(const std::vector<Node>& nodes) {
  std::string text;
  for (const Node& node : nodes) {
    text += fmt::format("    {}) commands={} options={} ;;\n", quoted(node.path),
                        quoted(names(node.commands)), quoted(names(node.options)));
  }
  return text;
}

std::string command_paths(const std::vector<Node>& nodes) {
  std::string text;
  for (const Node& node : nodes) {
    if (!node.path.empty()) text += (text.empty() ? "" : "|") + quoted(node.path);
  }
  return text;
}

std::string bash_script(const std::vector<Node>& nodes) {
  return fmt::format(R"(# bash completion of ramcloud: source <(ramcloud completion bash)
_ramcloud() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" path="" word next commands="" options="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${{COMP_WORDS[i]}}"
    next="${{path:+$path }}$word"
    case "$next" in
      {0}) path="$next" ;;
    esac
  done
  case "$path" in
{1}  esac
  if [[ "$current" == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  elif [[ -n "$commands" ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  fi
}}
complete -o filenames -F _ramcloud ramcloud
)",
                     command_paths(nodes), shell_cases(nodes));
}

std::string zsh_script(const std::vector<Node>& nodes) {
  return fmt::format(R"(#compdef ramcloud
# zsh completion of ramcloud: source <(ramcloud completion zsh)
_ramcloud() {{
  local current="${{words[CURRENT]}}" cmd_path="" word next commands="" options="" i
  for ((i = 2; i < CURRENT; i++)); do
    word="${{words[i]}}"
    next="${{cmd_path:+$cmd_path }}$word"
    case "$next" in
      {0}) cmd_path="$next" ;;
    esac
  done
  case "$cmd_path" in
{1}  esac
  if [[ "$current" == -* ]]; then
    compadd -- ${{=options}}
  elif [[ -n "$commands" ]]; then
    compadd -- ${{=commands}}
  else
    _files
  fi
}}
if [[ "$funcstack[1]" == _ramcloud ]]; then _ramcloud "$@"; else compdef _ramcloud ramcloud; fi
)",
                     command_paths(nodes), shell_cases(nodes));
}

std::string fish_script(const std::vector<Node>& nodes) {
  std::string text = fmt::format(R"(# fish completion of ramcloud: ramcloud completion fish | source
function __ramcloud_at
  set -l at ''
  for word in (commandline -opc)[2..-1]
    set -l next (string trim -- "$at $word")
    if contains -- $next {}
      set at $next
    end
  end
  test "$at" = "$argv[1]"
end
)",
                                 [&] {
                                   std::string list;
                                   for (const Node& node : nodes) {
                                     if (!node.path.empty()) list += " " + quoted(node.path);
                                   }
                                   return list.empty() ? list : list.substr(1);
                                 }());
  for (const Node& node : nodes) {
    const std::string condition = fmt::format("-n '__ramcloud_at \"{}\"'", node.path);
    for (const auto& [name, description] : node.commands) {
      text += fmt::format("complete -c ramcloud -f {} -a {} -d {}\n", condition, name,
                          quoted(description));
    }
    for (const auto& [name, description] : node.options) {
      const bool is_long = name.starts_with("--");
      text += fmt::format("complete -c ramcloud {} -{} {} -d {}\n", condition, is_long ? 'l' : 's',
                          name.substr(is_long ? 2 : 1), quoted(description));
    }
  }
  return text;
}

int print_completion(const CLI::App& root, Session& session, const std::string& shell) {
  std::vector<Node> nodes;
  collect(root, root, "", nodes);
  session.out << (shell == "bash"  ? bash_script(nodes)
                  : shell == "zsh" ? zsh_script(nodes)
                                   : fish_script(nodes));
  return kExitOk;
}

}  // namespace

void add_completion_command(CLI::App& app, Session& session) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("completion", "Print a completion script for bash, zsh or fish");
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(
      "Examples:\n"
      "  source <(ramcloud completion bash)\n"
      "  ramcloud completion fish > ~/.config/fish/completions/ramcloud.fish\n");
  runs(*command, session,
       [&app, &session, shell] { return print_completion(app, session, *shell); });
}

}  // namespace ramcloud::cli

#include "cli/session.h"

#include <CLI/CLI.hpp>
#include <ostream>

#include "base/text.h"

namespace ramcloud::cli {

Duration Session::timeout_duration() const {
  if (timeout == "0") return Duration::zero();  // for ever
  return parse_duration(timeout).value_or(30s);
}

BlockingClient& Session::client() {
  if (!client_) {
    client_ = std::make_unique<BlockingClient>(BlockingClient::Options{
        .coordinators = parse_cluster(cluster).value(),
        .timeout = timeout_duration(),
        .poll_for = 50us,
    });
  }
  return *client_;
}

int Session::report(const Status& status, std::string_view context) {
  out.flush();
  err << "ramcloud: ";
  if (!context.empty()) err << context << ": ";
  err << status.to_string() << '\n';
  return exit_code_of(status.code());
}

int Session::usage_error(std::string_view message) {
  err << "ramcloud: " << message << "\nRun 'ramcloud --help' for what is accepted.\n";
  return kExitUsage;
}

void runs(CLI::App& command, Session& session, std::function<int()> action) {
  command.callback([&session, action = std::move(action)] { session.action = action; });
}

void needs_cluster(CLI::App& command, Session& session, std::function<int()> action) {
  runs(command, session, [&session, action = std::move(action)] {
    if (session.cluster.empty()) {
      return session.usage_error(
          "--cluster is not given; accepted is HOST:PORT[,HOST:PORT...] here or in "
          "RAMCLOUD_CLUSTER");
    }
    if (auto parsed = parse_cluster(session.cluster); !parsed) {
      return session.usage_error("--cluster: " + parsed.error().message());
    }
    return action();
  });
}

Result<wire::TableInfo> open_table(Session& session, const std::string& name) {
  auto table = session.client().run(session.core().open_table(name));
  if (!table && table.error() == StatusCode::kNotFound) {
    return fail(StatusCode::kNotFound, "table '" + name + "' does not exist");
  }
  return table;
}

}  // namespace ramcloud::cli

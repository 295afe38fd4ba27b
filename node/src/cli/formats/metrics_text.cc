#include "cli/formats/metrics_text.h"

#include <charconv>
#include <limits>
#include <optional>

namespace ramcloud::cli {
namespace {

/// The value of label `name` in `{a="x",b="y"}`; values of these metrics contain no escapes.
std::string_view label(std::string_view labels, std::string_view name) {
  const std::string start = std::string(name) + "=\"";
  const size_t at = labels.find(start);
  if (at == std::string_view::npos) return {};
  labels.remove_prefix(at + start.size());
  return labels.substr(0, labels.find('"'));
}

std::optional<double> number(std::string_view text) {
  if (text == "+Inf") return std::numeric_limits<double>::infinity();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void read_line(std::string_view line, OperationMetrics& into) {
  const size_t space = line.rfind(' ');
  if (line.starts_with('#') || space == std::string_view::npos) return;
  const auto value = number(line.substr(space + 1));
  if (!value || !(*value >= 0)) return;
  const std::string_view series = line.substr(0, space);
  const std::string_view name = series.substr(0, series.find('{'));
  const std::string_view labels = series.substr(name.size());
  if (name == "ramcloud_operation_seconds_count") {
    into.count_by_op[std::string(label(labels, "op"))] += static_cast<uint64_t>(*value);
  } else if (name == "ramcloud_operation_seconds_bucket") {
    if (const auto bound = number(label(labels, "le"))) {
      into.at_most[*bound] += static_cast<uint64_t>(*value);
    }
  } else if (name == "ramcloud_reactor_busy_seconds_total") {
    into.busy_seconds += *value;
  }
}

}  // namespace

uint64_t OperationMetrics::operations() const {
  uint64_t sum = 0;
  for (const auto& [op, count] : count_by_op) sum += count;
  return sum;
}

uint64_t OperationMetrics::operations(const std::string& op) const {
  const auto found = count_by_op.find(op);
  return found == count_by_op.end() ? 0 : found->second;
}

double OperationMetrics::quantile(double q) const {
  if (at_most.empty() || at_most.rbegin()->second == 0) return 0;
  const auto wanted = q * static_cast<double>(at_most.rbegin()->second);
  double last_finite = 0;
  for (const auto& [bound, count] : at_most) {
    if (bound < std::numeric_limits<double>::infinity()) last_finite = bound;
    if (static_cast<double>(count) >= wanted) break;
  }
  return last_finite;
}

OperationMetrics OperationMetrics::since(const OperationMetrics& earlier) const {
  if (operations() < earlier.operations() || busy_seconds < earlier.busy_seconds) return *this;
  OperationMetrics change = *this;
  for (const auto& [op, count] : earlier.count_by_op) change.count_by_op[op] -= count;
  for (const auto& [bound, count] : earlier.at_most) change.at_most[bound] -= count;
  change.busy_seconds -= earlier.busy_seconds;
  return change;
}

OperationMetrics read_operation_metrics(std::string_view text) {
  OperationMetrics metrics;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    read_line(text.substr(0, end), metrics);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return metrics;
}

}  // namespace ramcloud::cli

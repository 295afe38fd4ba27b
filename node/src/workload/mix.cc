#include "workload/mix.h"

namespace ramcloud::workload {
namespace {

using enum Operation;

constexpr Workload kWorkloads[] = {
    {"read", "Read random keys", {{{kRead, 1}, {}}}, Distribution::kUniform},
    {"write", "Overwrite random keys", {{{kUpdate, 1}, {}}}, Distribution::kUniform},
    {"multiread",
     "Read random keys, --batch at once",
     {{{kMultiRead, 1}, {}}},
     Distribution::kUniform},
    {"multiwrite",
     "Overwrite random keys, --batch at once",
     {{{kMultiWrite, 1}, {}}},
     Distribution::kUniform},
    {"ycsb-a",
     "Half reads, half updates",
     {{{kRead, 0.5}, {kUpdate, 0.5}}},
     Distribution::kZipfian},
    {"ycsb-b",
     "95 % reads, 5 % updates",
     {{{kRead, 0.95}, {kUpdate, 0.05}}},
     Distribution::kZipfian},
    {"ycsb-c", "Reads only, of popular keys", {{{kRead, 1}, {}}}, Distribution::kZipfian},
    {"ycsb-d",
     "95 % reads of the newest keys, 5 % inserts",
     {{{kRead, 0.95}, {kInsert, 0.05}}},
     Distribution::kLatest},
    {"ycsb-f",
     "Half reads, half reads followed by a write",
     {{{kRead, 0.5}, {kModify, 0.5}}},
     Distribution::kZipfian},
};

}  // namespace

std::span<const Workload> workloads() {
  return kWorkloads;
}

}  // namespace ramcloud::workload

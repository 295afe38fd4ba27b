// The client's cache of the owners of tablets.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "wire/control_messages.h"

namespace ramcloud {

/// One tablet with its owner and the owner's address.
struct Place {
  uint64_t start_hash = 0;  // inclusive
  uint64_t end_hash = 0;    // inclusive
  uint64_t server_id = 0;
  wire::TabletState state = wire::TabletState::kUnavailable;
  Locator locator;  // meaningful when reachable()
  bool has_locator = false;

  bool reachable() const { return state == wire::TabletState::kNormal && has_locator; }
};

/// "tablet 0000000000000000-7fffffffffffffff of server 3 (tcp:host=…,port=…)".
std::string describe(const Place& place);

/// UNAVAILABLE with the reason why a place is not reachable().
Status why_unreachable(const Place& place);

class TabletMap {
 public:
  struct Table {
    std::string name;
    uint64_t generation = 0;  // rises with every update of any table
    std::vector<Place> places;
  };

  /// Stores the coordinator's answer. PROTOCOL_ERROR if the tablets are not in order or do not
  /// cover every hash once; then the table is not stored.
  Status update(const wire::TableInfo& info);
  void erase(uint64_t table_id) { tables_.erase(table_id); }
  const Table* find(uint64_t table_id) const;
  /// 0: the table is not known.
  uint64_t generation_of(uint64_t table_id) const {
    const Table* table = find(table_id);
    return table == nullptr ? 0 : table->generation;
  }
  /// Places cover all hashes, so there is always one.
  static const Place& place_of(const Table& table, uint64_t hash);

 private:
  std::map<uint64_t, Table> tables_;
  uint64_t generation_ = 0;
};

}  // namespace ramcloud

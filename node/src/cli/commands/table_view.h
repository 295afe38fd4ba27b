// How tables and tablets are shown, by the commands that list them.
#pragma once

#include <string>
#include <vector>

#include "cli/session.h"
#include "wire/control_messages.h"

namespace ramcloud::cli {

const char* tablet_state_name(wire::TabletState state);

/// {"id":…,"name":…,"tablets":[…]}; hashes as 16 hexadecimal digits, which JSON numbers cannot
/// hold.
std::string table_json(const wire::TableInfo& table);

/// A row (or a JSON list element) a table.
void print_tables(Session& session, const std::vector<wire::TableInfo>& tables);
/// A row (or a JSON list element) a tablet.
void print_tablets(Session& session, const std::vector<wire::TableInfo>& tables);

}  // namespace ramcloud::cli

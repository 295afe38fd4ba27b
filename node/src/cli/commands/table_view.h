// Output formats of tables and tablets.
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

/// Prints a row (or a JSON list element) for each table.
void print_tables(Session& session, const std::vector<wire::TableInfo>& tables);
/// Prints a row (or a JSON list element) for each tablet.
void print_tablets(Session& session, const std::vector<wire::TableInfo>& tables);

}  // namespace ramcloud::cli

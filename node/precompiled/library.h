// What most files of the engine include of others' headers: parsed once per build where
// RAMCLOUD_PRECOMPILE is on (precompiled.cmake). Every file still includes what it uses, as the
// presets without this see.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

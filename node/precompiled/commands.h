// library.h, for the command line.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "library.h"

// `ramcloudd dev`: a whole cluster on this machine, in one process or as child processes.
#pragma once

#include "daemon/options.h"
#include "daemon/signals.h"

namespace ramcloud::daemon {

/// Runs until told to stop. Prints one line "ready: …" on standard output when all servers serve.
Status run_dev(const DevOptions& options, StopSignals& signals);

}  // namespace ramcloud::daemon

#!/usr/bin/env bash
# Whether the bugs in test/mutants can still be planted; `make mutants` then shows that the tests find them.
set -euo pipefail
exec "$(dirname "$0")/mutants.sh" --check

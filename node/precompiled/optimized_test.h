// As test.h, for tests that run longer than it takes to optimise them.
#include "test.h"

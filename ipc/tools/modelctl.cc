// modelctl: the client of modeld. State with reason, live outputs, counters, trace, recording,
// example consumer.
#include "ipc/tools/ctl_commands.h"

int main(int argc, char** argv) {
  return modeld::ipc::modelctl_main(argc, argv);
}

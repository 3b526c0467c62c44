// modelc: ONNX files to bundles, and everything one does with a bundle on a desk.
#include "models/tools/commands.h"

int main(int argc, char** argv) {
  return modeld::tools::modelc_main(argc, argv);
}

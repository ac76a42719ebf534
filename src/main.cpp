// The program: everything is in cli/.
#include "cli/program.h"

int main(int argc, char** argv) { return tamis::cli::run_program(argc, argv); }

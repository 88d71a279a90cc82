# SPDX-License-Identifier: Apache-2.0
# cmake -D PROGRAM=... -D PLANT=NAME -D SEEDS=N -P caught.cmake: the simulator finds the bug that is planted.
set(ENV{MUSTER_SIM_PLANT} ${PLANT})
execute_process(COMMAND ${PROGRAM} --seeds ${SEEDS} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE story)
string(REGEX MATCH "seed [0-9]+ (breaks|crashes)[^\n]*" how "${story}")
if(NOT code MATCHES "^1[013]$" OR how STREQUAL "")
    message(FATAL_ERROR "the bug '${PLANT}' is not caught in ${SEEDS} seeds: exit code ${code}\n${out}${story}")
endif()
message(STATUS "${PLANT}: ${how}")

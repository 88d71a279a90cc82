# SPDX-License-Identifier: Apache-2.0
# The flags of ours are for C.
add_executable(unwind_rank unwind_rank.cc rank/belongings.c rank/events.c)
target_compile_options(unwind_rank PRIVATE -Wall -Wextra -Wconversion
    $<$<COMPILE_LANGUAGE:CXX>:-Wold-style-cast> -Wundef -Wformat=2 $<$<BOOL:${MUSTER_WERROR}>:-Werror>)
if(MUSTER_SANITIZE)
    target_compile_options(unwind_rank PRIVATE -fsanitize=${MUSTER_SANITIZE}
        -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(unwind_rank PRIVATE -fsanitize=${MUSTER_SANITIZE})
endif()
target_include_directories(unwind_rank PRIVATE ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(unwind_rank PRIVATE muster)

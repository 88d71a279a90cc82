# SPDX-License-Identifier: Apache-2.0
add_executable(preempt_rank preempt_rank.c)
target_link_libraries(preempt_rank PRIVATE mst_flags muster Threads::Threads)

# SPDX-License-Identifier: Apache-2.0
mst_test(page_test SOURCES page_test.c LINK mst_page)
mst_test(death_test SOURCES death_test.c LINK mst_page)
mst_test(agent_process_test SOURCES agent_process_test.c ${CMAKE_SOURCE_DIR}/src/agent/process.c LINK mst_page)
mst_test(output_test SOURCES output_test.c LINK mst_agent_process)
mst_test(spawn_test SOURCES spawn_test.c LINK mst_agent_process)
mst_test(keeper_test SOURCES keeper_test.c LINK mst_agent_process)
mst_test(rendezvous_test SOURCES rendezvous_test.c LINK mst_agent_process)
mst_test(monitor_test SOURCES monitor_test.c LINK mst_monitor mst_panic_abort)

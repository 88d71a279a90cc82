mst_test(client_test SOURCES client_test.c client_stage.c failing_mem.c
    LINK mst_client mst_panic_abort)
mst_test(client_endpoints_test SOURCES client_endpoints_test.c client_stage.c failing_mem.c
    LINK mst_driver mst_client mst_panic_abort)
mst_test(client_chaos_test SOURCES client_chaos_test.c client_stage.c failing_mem.c
    LINK mst_client mst_panic_abort)

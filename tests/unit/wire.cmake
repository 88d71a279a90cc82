add_library(message_generator STATIC message_generator.c)
target_include_directories(message_generator PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(message_generator PUBLIC mst_msg mst_base mst_flags)

mst_test(native_identity_test SOURCES native_identity_test.c native_link.c
    LINK message_generator mst_wire mst_panic_abort)
mst_test(native_damage_test SOURCES native_damage_test.c native_link.c failing_mem.c
    LINK message_generator mst_wire mst_panic_abort)
mst_test(native_hello_test SOURCES native_hello_test.c native_link.c failing_mem.c
    LINK mst_wire mst_panic_abort)

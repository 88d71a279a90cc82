add_library(message_generator STATIC message_generator.c)
target_include_directories(message_generator PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(message_generator PUBLIC mst_proto mst_base mst_flags)

mst_test(native_identity_test SOURCES native_identity_test.c native_link.c
    LINK message_generator mst_proto mst_panic_abort)
mst_test(native_damage_test SOURCES native_damage_test.c native_link.c failing_mem.c
    LINK message_generator mst_proto mst_panic_abort)
mst_test(native_hello_test SOURCES native_hello_test.c native_link.c failing_mem.c
    LINK mst_proto mst_panic_abort)

add_library(cluster_generator STATIC cluster_generator.c)
target_link_libraries(cluster_generator PUBLIC message_generator)
mst_test(cluster_codec_test SOURCES cluster_codec_test.c failing_mem.c
    LINK cluster_generator mst_proto mst_base mst_panic_abort)
mst_test(protobuf_test SOURCES protobuf_test.c failing_mem.c
    LINK cluster_generator mst_proto mst_base mst_panic_abort)
mst_test(cluster_status_test SOURCES cluster_status_test.c ${CMAKE_SOURCE_DIR}/src/tasks/publisher.c
    LINK mst_proto mst_base mst_panic_abort)
mst_test(frame_limit_test SOURCES frame_limit_test.c native_link.c LINK mst_proto mst_base mst_panic_abort)

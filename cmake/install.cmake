# SPDX-License-Identifier: Apache-2.0
# What `make install` puts under a prefix: the program, the library shared and static, its headers, what
# pkg-config and CMake find it by, the manual, shell completion, the documentation.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/muster)

set_target_properties(muster muster_program PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS muster_program)
install(TARGETS muster EXPORT muster-shared INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
add_custom_target(muster_archived ALL)
add_dependencies(muster_archived muster_archive)
install(FILES $<TARGET_PROPERTY:muster_archive,FILE> DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/muster DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

# CMake: find_package(muster).
install(EXPORT muster-shared NAMESPACE muster:: DESTINATION ${package_dir})
configure_package_config_file(cmake/muster-config.cmake.in ${CMAKE_BINARY_DIR}/install/muster-config.cmake
    INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/install/muster-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/install/muster-config.cmake
    ${CMAKE_BINARY_DIR}/install/muster-config-version.cmake DESTINATION ${package_dir})

# pkg-config. It holds the prefix, which `cmake --install --prefix` may decide as late as now.
file(RELATIVE_PATH libdir_of_prefix "${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_FULL_LIBDIR}")
file(RELATIVE_PATH includedir_of_prefix "${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
install(CODE "
    set(PROJECT_VERSION ${PROJECT_VERSION})
    set(libdir \"${libdir_of_prefix}\")
    set(includedir \"${includedir_of_prefix}\")
    set(rpath \" -Wl,-rpath,\\\${libdir}\")
    if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")
        set(rpath \"\")
    endif()
    configure_file(\"${CMAKE_SOURCE_DIR}/cmake/muster.pc.in\" \"${CMAKE_BINARY_DIR}/install/muster.pc\" @ONLY)
    file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${libdir_of_prefix}/pkgconfig\" TYPE FILE
        FILES \"${CMAKE_BINARY_DIR}/install/muster.pc\")
")

# The manual and the completion of shells, by the program that was built: its own tables say it. The
# manual has the date of the last change, or that of SOURCE_DATE_EPOCH.
set(pages ${CMAKE_BINARY_DIR}/pages)
find_package(Git QUIET)
string(TIMESTAMP today "%Y-%m-%d" UTC)
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH} AND GIT_FOUND)
    execute_process(COMMAND ${GIT_EXECUTABLE} log -1 --format=%cs
        WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE changed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(changed)
    set(today ${changed})
endif()
add_custom_command(
    OUTPUT ${pages}/made
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${pages}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}/man
    COMMAND muster_program --manual ${pages}/man ${today}
    COMMAND muster_program completion bash >${pages}/muster
    COMMAND muster_program completion zsh >${pages}/_muster
    COMMAND muster_program completion fish >${pages}/muster.fish
    COMMAND ${CMAKE_COMMAND} -E touch ${pages}/made
    DEPENDS muster_program)
add_custom_target(muster_pages ALL DEPENDS ${pages}/made)
install(DIRECTORY ${pages}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
install(DIRECTORY ${pages}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man7 FILES_MATCHING PATTERN "*.7")

# The reference of the C interface, from the contracts in the headers.
find_program(MUSTER_REFERENCE_PYTHON python3 DOC "A python3 that writes the pages of the C interface")
if(MUSTER_REFERENCE_PYTHON)
    file(GLOB contracts CONFIGURE_DEPENDS include/muster/*.h)
    set(reference ${CMAKE_BINARY_DIR}/reference)
    add_custom_command(
        OUTPUT ${reference}/made
        COMMAND ${MUSTER_REFERENCE_PYTHON} ${CMAKE_SOURCE_DIR}/tools/reference ${PROJECT_VERSION} ${today} ${reference}
        COMMAND ${CMAKE_COMMAND} -E touch ${reference}/made
        DEPENDS tools/reference docs/glossary.md ${contracts}
        VERBATIM)
    add_custom_target(muster_reference ALL DEPENDS ${reference}/made)
    install(DIRECTORY ${reference}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3 FILES_MATCHING PATTERN "*.3")
    install(DIRECTORY ${reference}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man7 FILES_MATCHING PATTERN "*.7")
    install(DIRECTORY ${reference}/html/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/reference)
else()
    message(STATUS "No python3: the reference of the C interface is not built")
endif()
install(FILES ${pages}/muster DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${pages}/_muster DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${pages}/muster.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples packaging DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN CMakeLists.txt EXCLUDE)

# The Python package, where one was built.
set(package_files FILES_MATCHING PATTERN "*.py" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)
if(TARGET muster_python)
    install(TARGETS muster_python LIBRARY DESTINATION ${MUSTER_PYTHON_DIR}/muster)
    install(DIRECTORY python/muster DESTINATION ${MUSTER_PYTHON_DIR} ${package_files})
    set(package_stubs ${CMAKE_BINARY_DIR}/python/_muster.pyi ${CMAKE_BINARY_DIR}/python/_types.pyi)
    install(FILES ${package_stubs} DESTINATION ${MUSTER_PYTHON_DIR}/muster)
endif()

# What a wheel has, which has the program and the library inside the package: `cmake --install BUILD
# --component wheel`. The library's file has the name that the module looks for, for a wheel holds no links.
if(TARGET muster_python)
    set(of_wheel COMPONENT wheel EXCLUDE_FROM_ALL)
    install(TARGETS muster_python LIBRARY DESTINATION muster ${of_wheel})
    install(TARGETS muster_program RUNTIME DESTINATION muster/bin ${of_wheel})
    install(PROGRAMS $<TARGET_FILE:muster> DESTINATION muster/lib RENAME $<TARGET_SONAME_FILE_NAME:muster>
        ${of_wheel})
    install(DIRECTORY python/muster DESTINATION . ${of_wheel} ${package_files})
    install(FILES ${package_stubs} DESTINATION muster ${of_wheel})
endif()

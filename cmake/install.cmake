include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/timing_wheel)

install(TARGETS timing_wheel timing_wheel_asio timing_wheel_standalone_asio EXPORT timing_wheelTargets FILE_SET HEADERS)
install(EXPORT timing_wheelTargets NAMESPACE timing_wheel:: DESTINATION ${package_dir})

if(TARGET timing_wheel_durable)
  # Loaded only if it is asked for, so that the core needs no database.
  install(TARGETS timing_wheel_durable EXPORT timing_wheel_durableTargets FILE_SET HEADERS)
  install(EXPORT timing_wheel_durableTargets NAMESPACE timing_wheel:: DESTINATION ${package_dir})
endif()

configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/timing_wheelConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/timing_wheelConfig.cmake
  INSTALL_DESTINATION ${package_dir}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(
  ${CMAKE_CURRENT_BINARY_DIR}/timing_wheelConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/timing_wheelConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/timing_wheelConfigVersion.cmake
  DESTINATION ${package_dir})

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

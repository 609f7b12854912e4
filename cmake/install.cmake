# What `cmake --install` brings. A package for both kinds of libraries is made of two trees installed in one place, so
# what belongs to a kind is in files of its own. The components are those that cmake/packages.cmake makes packages of.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/timing_wheel)
set(kind static)
if(BUILD_SHARED_LIBS)
  set(kind shared)
endif()

# timing_wheel_install(PART EXPORT TARGET...): the targets, and the file that imports them.
function(timing_wheel_install part export)
  install(TARGETS ${ARGN} EXPORT ${export}
    LIBRARY COMPONENT ${part}_runtime NAMELINK_COMPONENT ${part}_development
    ARCHIVE COMPONENT ${part}_development
    FILE_SET HEADERS COMPONENT ${part}_development)
  install(EXPORT ${export} NAMESPACE timing_wheel:: FILE ${export}-${kind}.cmake DESTINATION ${package_dir}
    COMPONENT ${part}_development)
endfunction()

timing_wheel_install(timing_wheel timing_wheelTargets
  timing_wheel timing_wheel_asio timing_wheel_standalone_asio timing_wheel_execution)
if(TARGET timing_wheel_durable)
  # Loaded only if it is asked for, so that the core needs no database.
  timing_wheel_install(timing_wheel_durable timing_wheel_durableTargets timing_wheel_durable)
  set(stores)
  if(TIMING_WHEEL_SQLITE)
    list(APPEND stores sqlite)
  endif()
  if(TIMING_WHEEL_POSTGRES)
    list(APPEND stores postgres)
  endif()
  set(stores_file ${CMAKE_CURRENT_BINARY_DIR}/timing_wheel_durableStores-${kind}.cmake)
  file(CONFIGURE OUTPUT ${stores_file} CONTENT "set(timing_wheel_stores @stores@)\n" @ONLY)
  install(FILES ${stores_file} DESTINATION ${package_dir} COMPONENT timing_wheel_durable_development)
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
  DESTINATION ${package_dir} COMPONENT timing_wheel_development)

include(${CMAKE_CURRENT_LIST_DIR}/pkg_config.cmake)

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT timing_wheel_license)
if(PROJECT_IS_TOP_LEVEL)
  include(${CMAKE_CURRENT_LIST_DIR}/packages.cmake)
endif()

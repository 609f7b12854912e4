# Never run by vcpkg, only read. As an overlay port: write where you have the sources, and the commit of the version.
vcpkg_from_git(
  OUT_SOURCE_PATH SOURCE_PATH
  URL https://example.org/timing_wheel.git
  REF 0000000000000000000000000000000000000000)

vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS
  FEATURES
    durable TIMING_WHEEL_DURABLE
    sqlite TIMING_WHEEL_SQLITE
    postgres TIMING_WHEEL_POSTGRES)

# Static or shared is as the triplet says, which sets BUILD_SHARED_LIBS.
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    -DTIMING_WHEEL_BUILD_TESTS=OFF
    -DTIMING_WHEEL_BUILD_BENCHMARKS=OFF
    -DTIMING_WHEEL_BUILD_EXAMPLES=OFF
    ${FEATURE_OPTIONS})
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME timing_wheel CONFIG_PATH lib/cmake/timing_wheel)
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")

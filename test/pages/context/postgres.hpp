#include <string_view>

extern pg_conn* connection;
void execute(pg_conn* on, std::string_view sql);

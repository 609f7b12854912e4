struct my_library {
  using sender_t = stdexec::sender_t;
  using scheduler_t = stdexec::scheduler_t;
  using operation_state_t = stdexec::operation_state_t;
  using set_value_t = stdexec::set_value_t;
  using set_error_t = stdexec::set_error_t;
  using set_stopped_t = stdexec::set_stopped_t;
  using get_env_t = stdexec::get_env_t;
  using get_stop_token_t = stdexec::get_stop_token_t;
  template <class... Signatures>
  using completion_signatures = stdexec::completion_signatures<Signatures...>;
  template <class Signal>
  using get_completion_scheduler_t = stdexec::get_completion_scheduler_t<Signal>;
};

using my_library = senders::library;

"""The command line. One file a command; heavy imports stand inside the commands, so that help is instant."""

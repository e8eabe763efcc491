"""The command line. One file per group of commands. Heavy imports are inside the commands, so that help is instant."""

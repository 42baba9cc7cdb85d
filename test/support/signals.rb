# frozen_string_literal: true

# Gives this process, and so the programs that tests start, the default action of every signal that
# its parent ignored: a shell's background ignores INT, nohup HUP, some languages PIPE, and a test
# which sends such a signal would wait for ever.
%w[HUP INT QUIT USR1 USR2 PIPE ALRM TERM CHLD CONT TSTP TTIN TTOU WINCH].each do |name|
  before = trap(name, "DEFAULT")
  trap(name, before) unless [nil, "IGNORE", "DEFAULT", "SYSTEM_DEFAULT"].include?(before)
rescue ArgumentError
  next # this system or this Ruby keeps it for itself
end

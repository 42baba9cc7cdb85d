# frozen_string_literal: true

# The reactor's switches, as programs have them at their top. EventMachine polls by select without
# them; Gyre's loop has chosen by itself.
#
#     ruby -Ilib exe/gyre em examples/event_machine/switches.rb

require "eventmachine"

EM.epoll if EM.respond_to?(:epoll)
EM.kqueue if EM.respond_to?(:kqueue)
EM.set_descriptor_table_size(4096)

EM.run do
  puts "library: #{EM.library_type}, TLS: #{EM.ssl?}"
  ticks = 0
  EM.add_periodic_timer(0.01) { EM.stop if (ticks += 1) == 3 }
  EM.add_shutdown_hook { puts "#{ticks} ticks" }
end

# frozen_string_literal: true

# A fiber scheduler driven by hand, as with Evt and other bare schedulers: choose a backend, set the
# scheduler, start fibers, run. Argument: a backend (default: the best).

require "gyre/scheduler"

puts "available: #{Gyre::Scheduler.availables.join(", ")}"
scheduler = Gyre::Scheduler.new(ARGV[0])
Fiber.set_scheduler(scheduler)

reader, writer = IO.pipe
Fiber.schedule do
  puts "got #{reader.gets.inspect}"
end
Fiber.schedule do
  sleep 0.05
  writer.puts "a line"
end
puts "both wait"
scheduler.run
puts "all is done"
Fiber.set_scheduler(nil)

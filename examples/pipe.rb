# frozen_string_literal: true

# A reader and a writer on one pipe, in one thread: plain IO on Gyre's scheduler. The reader waits
# for the writer, the writer for its clock.
#
#   ruby -Ilib examples/pipe.rb

require "gyre"

Fiber.set_scheduler(Gyre::Scheduler.new)
reader, writer = IO.pipe

Fiber.schedule do
  puts "reader: waits"
  while (line = reader.gets)
    puts "reader: #{line}"
  end
  puts "reader: end of file"
end

Fiber.schedule do
  3.times do |index|
    sleep 0.1
    puts "writer: line #{index}"
    writer.puts "line #{index}"
  end
  writer.close
end

puts "main: both are at work" # at the program's end Ruby runs the scheduler until its fibers are done

# frozen_string_literal: true

# Reports settings that work, but perhaps not as intended, before values are read.

module Gyre
  module CLI
    module Log
      class Configuration
        # Collects pairs of path and text.
        module Notices
          module_function

          # Removes Analogger's keys without effect.
          def take(values, document)
            logs = values["logs"].is_a?(Array) ? values["logs"].each_with_index.select { |log, _| log.is_a?(Hash) } : []
            notices = [*without_effect(values, "secret"), *key(values["key"], document.written("key")), *levels(values, "levels"), *services(logs)]
            logs.each_with_object(notices) do |(log, index), all|
              place = "logs[#{index + 1}]"
              all.concat(without_effect(log, "default", "#{place}.default"), levels(log, "#{place}.levels"))
              all << [place, "has no service, so nothing goes there, as in Analogger"] unless log.key?("services") || log.key?("service")
            end
          end

          def without_effect(values, name, path = name) = values.delete(name).nil? ? [] : [[path, "does nothing, as in Analogger; it may be removed"]]

          def key(value, written)
            return [] if value.nil? || value.is_a?(String) || value.is_a?(Enumerable) || value.to_s == written

            [["key", "YAML does not read this as text, which changes it; put it in quotes if clients cannot get in"]]
          end

          def levels(values, path)
            levels = values["levels"]
            off = levels.is_a?(Hash) ? levels.select { |_, value| value == false }.keys : []
            [([path, "lets nothing through"] if levels == []),
             ([path, "#{off.join(", ")} is let through, as in Analogger, whatever its value; remove it"] if off.any?)].compact
          end

          def services(logs)
            names = logs.flat_map { |log, _| Array(log["services"] || log["service"]).map(&:to_s).uniq }
            names.tally.select { |_, count| count > 1 }.map { |name, count| ["logs", "service #{name} is in #{count} entries; the last one counts"] }
          end
        end
      end
    end
  end
end

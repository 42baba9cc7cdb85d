# frozen_string_literal: true

# Formats the figures of snapshots as text for Prometheus (OpenMetrics 1.0). Called by
# Gyre::Web::ControlApp, and by a supervisor to add the counts of ended workers.

require "gyre/web/control/figure"
require "gyre/web/control/snapshot"

module Gyre
  module Web
    # A family gyre_… is a sum over all workers. A family gyre_worker_… has a sample for each
    # worker. The names differ so that no query adds a sum to its parts.
    module Metrics
      # Maximum labels of a family, however many other ones each worker has.
      LABELS_LIMIT = 200
      OTHER = "(other)"
      TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

      class << self
        # `ended`: counts of ended workers, which are added so that sums never fall.
        def text(snapshots, ended: nil)
          out = +""
          info(out, snapshots)
          Figure::ALL.each do |family|
            by_worker = snapshots.transform_values { |snapshot| family.value(snapshot) }.compact
            gone = family.value(ended) if ended && family.type != :gauge
            next if by_worker.empty? && gone.nil?

            sum = total(family, by_worker.values, gone)
            sum = sum.reject { |_, part| part.zero? } if family.summed?
            next if sum == {}

            write(out, "gyre_", family, [[{}, sum]])
            next if family.summed? || by_worker.empty?

            write(out, "gyre_worker_", family, by_worker.map { |name, value| [{ "worker" => name }, value] })
          end
          out << "# EOF\n"
        end

        # True for a valid snapshot. (An invalid one would make {text} fail for all workers.)
        def readable?(snapshot)
          snapshot.is_a?(Hash) && Figure::ALL.all? { |family| fits?(family, family.value(snapshot)) }
        rescue TypeError, NoMethodError, ArgumentError
          false # another type where a Hash is expected
        end

        # Adds the counts of two snapshots. A supervisor keeps the sum of all ended workers.
        def add(sum, snapshot)
          Figure::ALL.reject { |family| family.type == :gauge }.each_with_object({}) do |family, both|
            values = [sum, snapshot].compact.filter_map { |each| family.value(each) }
            *way, last = family.path
            way.reduce(both) { |hash, key| hash[key] ||= {} }[last] = values.reduce { |one, other| plus(one, other) } if values.any?
          end
        end

        # Adds a snapshot's routes to a sum, as zeros. Later sums keep these rows apart from
        # "(other)".
        def reserve(sum, snapshot)
          families = Figure::ALL.select(&:summed?)
          known = (sum && families.first.value(sum)) || {}
          labels = families.flat_map { |family| family.value(snapshot).to_h.keys }.uniq
          return sum if known.size >= LABELS_LIMIT || labels.all? { |label| known.key?(label) }

          zeros = labels.to_h { |label| [label, 0] }
          add(sum, families.each_with_object({}) { |family, all| (all[family.path.first] ||= {})[family.path.last] = zeros })
        end

        private

        def fits?(family, value)
          return true if value.nil?
          return value.is_a?(Hash) && value.each_value.all?(Numeric) if family.label
          return value.is_a?(Numeric) unless family.type == :histogram

          counts = value["counts"]
          counts.is_a?(Array) && counts.size == Snapshot::BOUNDS_S.size + 1 && counts.all?(Numeric) && value["sum_s"].is_a?(Numeric)
        end

        # `gone`: the value of all ended workers together, or nil.
        def total(family, values, gone)
          return values.public_send(family.total) if family.total

          [*[gone].compact, *values].reduce { |one, other| plus(one, other) }
        end

        def plus(one, other)
          case one
          when Hash  then other.each_with_object(one.dup) { |(name, value), sum| add_to(sum, name, value) }
          when Array then one.zip(other).map(&:sum)
          else one + other
          end
        end

        def add_to(sum, name, value)
          name = OTHER if sum.size >= LABELS_LIMIT && !sum.key?(name)
          sum[name] = sum.key?(name) ? plus(sum[name], value) : value
        end

        # Writes versions as a gauge: Prometheus's older format does not have the type "info".
        def info(out, snapshots)
          first = snapshots.each_value.first
          labels = { "version" => first ? first["version"] : VERSION, "ruby" => first ? first["ruby"] : RUBY_VERSION }
          out << "# TYPE gyre_info gauge\n# HELP gyre_info The server's version and Ruby's.\ngyre_info#{words(labels)} 1\n" \
                 "# TYPE gyre_workers gauge\n# HELP gyre_workers Processes that serve.\ngyre_workers #{snapshots.size}\n"
        end

        def write(out, prefix, family, samples)
          name = "#{prefix}#{family.name}"
          out << "# TYPE #{name} #{family.type}\n"
          out << "# UNIT #{name} #{family.unit}\n" if family.unit
          out << "# HELP #{name} #{family.help}\n"
          samples.each { |labels, value| sample(out, name, family, labels, value) }
        end

        def sample(out, name, family, labels, value)
          return histogram(out, name, labels, value) if family.type == :histogram

          name = "#{name}_total" if family.type == :counter
          return out << "#{name}#{words(labels)} #{number(value)}\n" unless family.label

          value.each { |key, part| out << "#{name}#{words(labels.merge(family.label => key))} #{number(part)}\n" }
        end

        def histogram(out, name, labels, value)
          sum = 0
          value["counts"].each_with_index do |count, index|
            bound = Snapshot::BOUNDS_S[index]
            out << "#{name}_bucket#{words(labels.merge("le" => bound ? number(bound) : "+Inf"))} #{sum += count}\n"
          end
          out << "#{name}_sum#{words(labels)} #{number(value["sum_s"])}\n" << "#{name}_count#{words(labels)} #{sum}\n"
        end

        def number(value) = value.is_a?(Integer) ? value.to_s : value.to_f.round(9).to_s

        def words(labels)
          return "" if labels.empty?

          "{#{labels.map { |name, value| "#{name}=\"#{value.to_s.gsub(/[\\"\n]/, "\\" => "\\\\", '"' => '\\"', "\n" => "\\n")}\"" }.join(",")}}"
        end
      end
    end
  end
end

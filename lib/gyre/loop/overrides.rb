# frozen_string_literal: true

# Lets subclasses of Gyre::Loop or Gyre::Scheduler override methods of the portable engine. Forwards
# methods to the object's subclass, as Ruby finds those of the extending module first. The
# subclass's `super` returns to the module. Called when a loop or scheduler is made. On the native
# engine Ruby does this by itself.

module Gyre
  class Loop
    module Overrides
      # Stands between a subclass and its superclass, for all objects of the subclass.
      class WayBack < Module
      end

      # `engine` extends the object; `base` is the superclass of overriding classes.
      def self.install(object, engine, base)
        object.extend(engine)
        subclasses = object.class.ancestors.take_while { |ancestor| !ancestor.equal?(base) }
        names = engine.instance_methods.select { |name| subclasses.any? { |one| one.method_defined?(name, false) } }
        return if names.empty?

        way_back = way_back_of(subclasses.grep(Class).last)
        names.each do |name|
          forward(object.singleton_class, name, "self.class.instance_method(:#{name}).bind_call(self, *arguments, **options, &block)")
          forward(way_back, name, "is_a?(#{engine}) ? #{engine}.instance_method(:#{name}).bind_call(self, *arguments, **options, &block) : super")
        end
      end

      def self.way_back_of(subclass)
        subclass.ancestors.grep(WayBack).first || WayBack.new.tap { |way| subclass.include(way) }
      end

      # Defines methods by text, as a Ractor calls no method defined by a block.
      def self.forward(owner, name, code)
        return if owner.method_defined?(name, false)

        owner.class_eval("def #{name}(*arguments, **options, &block)\n#{code}\nend", __FILE__, __LINE__)
      end
      private_class_method :way_back_of, :forward
    end
  end
end

"""The job master as a pure state machine: stimuli in, events decided, state folded, commands out."""

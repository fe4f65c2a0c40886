"""The answer in the output of a language model, and texts that only look like a part around an answer."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.scoring.answer_text import answer_of

SAID = "The red cube moved."
WRAPPED = [
    "<think>\nThe ball is gone.\n</think>\n\n{}",
    "The ball is gone, no.</think>{}",
    "<think>a</think><think>b</think>{}",
    "<thinking>The ball?</thinking> {}",
    "<|begin_of_thought|>x<|end_of_thought|>{}",
    "[THINK]x[/THINK]{}",
    "◁think▷x◁/think▷{}",
    "<answer>{}</answer>",
    "The ball may have moved. <answer> {} </answer> Done.",
    "<think>x</think>\n<answer>\n{}",
    "<ANSWER>{}</ANSWER>",
    "$\\boxed{{{}}}$",
    "So the change is \\boxed{{\\text{{{}}}}}",
    "ASSISTANT: {}",
    "USER: What changed? ASSISTANT: {}</s>",
    "Assistant: {}",
    "### Assistant:\n{}",
    "<|im_start|>user\nWhat changed?<|im_end|>\n<|im_start|>assistant\n{}<|im_end|>",
    "<|start_header_id|>assistant<|end_header_id|>\n\n{}<|eot_id|>",
    "<s>[INST] What changed? [/INST] {}</s>",
    "<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>final<|message|>{}<|return|>",
    "**Answer:** {}",
    "**Answer**: {}",
    "### Answer\n{}",
    "Answer: {}",
    "Final answer: {}",
    "The ball may be gone. Final Answer: {}",
    "I compared the images.\n\n**Final answer:** {}",
    "Therefore, the answer is: {}",
    "Caption: {}",
    "```\n{}\n```",
    "```text\n{}\n```",
    '```json\n{{"answer": "{}"}}\n```',
    '{{"caption": "{}"}}',
    '["{}"]',
    '"{}"',
    "“{}”",
    "**{}**",
    "{}<|endoftext|>",
    "{} <END>",
    "Assistant: <think>x</think> <answer>\\boxed{{\\text{{{}}}}}</answer>",
]
PLAIN = [
    SAID,
    "I think the red cube moved.",
    "Before: a red cube. After: a blue cube.",
    'The "cube" moved',
    '"a cube" became "a ball"',
    "**a cube** became **a ball**",
    "No one knows the answer, it moved",
    "There is nothing to answer: all is the same",
    "The assistant moved the cube.",
    "x < y > z",
    "None.",
    "no",
    '{"before": "a", "after": "b"}',
]
NOTHING = [
    "",
    " \n",
    "<think>",
    "<think>\nThe red cube moved.\n",
    "<think>a</think>",
    "<think>a</think> b <think> c",
    "<answer></answer>",
    "<|channel|>analysis<|message|>The red cube moved.",
    "Answer:",
    "nan",
    "NaN",
    "null",
    "None",
    "<NA>",
]


@pytest.mark.parametrize("wrapped", WRAPPED)
def test_the_answer_is_found_in(wrapped):
    assert answer_of(wrapped.format(SAID)).strip() == SAID


@pytest.mark.parametrize("text", PLAIN)
def test_a_text_without_wrappers_stays_unchanged(text):
    assert answer_of(text) == text


@pytest.mark.parametrize("text", NOTHING)
def test_there_is_no_answer_in(text):
    assert answer_of(text) == ""


PARTS = [
    "<think>",
    "</think>",
    "<answer>",
    "\\boxed{",
    "}",
    "```",
    '"',
    "**",
    "Answer:",
    "\n",
    " ",
    "a",
    "{",
    "[",
]


@given(st.lists(st.sampled_from(PARTS) | st.text(max_size=3), max_size=30).map("".join), st.integers(1, 200))
def test_any_output_is_read_in_short_time(text, times):
    begin = time.perf_counter()
    answer_of(text * times)
    assert time.perf_counter() - begin < 5

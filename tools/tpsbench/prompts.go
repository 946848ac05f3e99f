package main

// prompts ask what those of the paper's appendix ask, in words of our own, and want answers in
// the same forms, so that what reads them reads answers to the paper's own prompts too. Each
// is a format for fmt.
var prompts = struct {
	selection, schedule, serial, plan, rate, score, generate string
}{
	selection: `Choose the tools for a task from a list.

Task: %s

Tools:
%s
Choose only those that the task needs, and at most %d. Answer with nothing but their names, each on a line of its own between bars:
|first_tool|
|second_tool|`,

	schedule: `You carry out tasks with tools. Break the task into subtasks that can each be checked. Find out for each whether it needs the result of another, or must come after it. Call the tools of all subtasks that wait for nothing in one turn, in parallel; call those that need results once these are there. If a search takes a limit, ask for 5 results. If a call fails, try another way, once.
Do not ask the user anything and do not report between the calls. When all is done, answer with the result of every subtask, in full: files that you may have written do not count as an answer. Say which subtasks could not be done, and why.`,

	serial: `
Make one call a turn, and decide on the next when you have its result.`,

	plan: `
There is a tool execute_tool_plan, which takes many calls at once and the references between them. Put all the calls that you can foresee into one plan, rather than calling the tools turn by turn.`,

	rate: `You judge how much of a task a model has completed.

Task:
%s

First list the subtasks of the task, numbered: each specific, and no further divisible. Then read the model's answer:

%s

An empty answer has completed nothing. A subtask for which the answer only holds <tool_call> tags is not completed. Say of each subtask whether it was completed, with the words of the answer that show it; one completed in part does not count. End with exactly these lines:
Total subtasks: X
Completed subtasks: X out of Y
Completion rate: XX%%
Summary: one sentence`,

	score: `You judge a choice of tools for a task.

Task:
%s

Chosen:
%s
Available:
%s
Give up to 50 points for tools that match what is asked for, with none missing; up to 30 for a short choice without duplicates, of at most 10 tools; up to 20 if together they cover every subtask. Take off 5 for each tool over 10, 10 for each missing tool that is needed, 8 for each that has nothing to do with the task. Answer with nothing but
{"total score": X}`,

	generate: `Compose one task that a user might give an assistant with these tools:

%s
First think of subtasks that one call of one tool each can solve. Then combine at least 2 and at most %d of them, %s. It must need several tools, and be solvable with these. Answer with nothing but one JSON object:
{"query": "the task in the user's words", "subtasks": [{"id": "t1", "text": "what it does", "tool": "name", "arguments": {}, "after": ["ids of those whose results it needs"]}]}
An argument that is another subtask's result is {"$ref": "t1#/pointer"}.`,
}

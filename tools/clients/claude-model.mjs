// A Messages API on loopback whose model follows a script: it calls the tools
// named on the command line one after the other and then says "done". The address
// is printed once it serves.
//
//	node claude-model.mjs TOOL|TOOL=ARGUMENTS…
//
// ARGUMENTS are JSON, {"text":"hello"} where there are none. A tool with a + before it is called
// together with the one before. The model thinks for $THINK milliseconds (default 0) before each
// call.
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

const script = process.argv.slice(2).map((step) => {
	const [, joined, name, input] = step.match(/^(\+?)([^=]*)=?(.*)$/s)
	return { joined: joined !== '', name, input: input === '' ? { text: 'hello' } : JSON.parse(input) }
})
const think = Number(process.env.THINK ?? 0)

const server = http.createServer((req, res) => {
	let body = ''
	req.on('data', (piece) => { body += piece })
	req.on('end', async () => {
		const path = req.url.split('?')[0]
		if (path === '/v1/messages/count_tokens') return json(res, { input_tokens: 1 })
		if (path !== '/v1/messages') return json(res, {})
		const asked = JSON.parse(body)
		const results = asked.messages.flatMap((m) => Array.isArray(m.content) ? m.content : []).filter((c) => c.type === 'tool_result').length
		const end = script.findIndex((step, i) => i > results && !step.joined)
		const next = (asked.tools ?? []).length > 0 ? script.slice(results, end < 0 ? undefined : end) : []
		if (next.length > 0) await sleep(think)
		const blocks = next.length === 0
			? [{ type: 'text', text: 'done' }]
			: next.map(({ name, input }, i) => ({ type: 'tool_use', id: `toolu_${results + i}`, name, input }))
		answer(res, asked, blocks)
	})
})

function json(res, value) {
	res.writeHead(200, { 'content-type': 'application/json' })
	res.end(JSON.stringify(value))
}

function answer(res, asked, blocks) {
	const usage = { input_tokens: 1, output_tokens: 1 }
	const stop = blocks[0].type === 'tool_use' ? 'tool_use' : 'end_turn'
	const message = { id: 'msg_1', type: 'message', role: 'assistant', model: asked.model, content: [], stop_reason: null, stop_sequence: null, usage }
	if (!asked.stream) return json(res, { ...message, content: blocks, stop_reason: stop })
	res.writeHead(200, { 'content-type': 'text/event-stream' })
	const say = (type, rest) => res.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`)
	say('message_start', { message })
	for (const [index, block] of blocks.entries()) {
		if (block.type === 'text') {
			say('content_block_start', { index, content_block: { type: 'text', text: '' } })
			say('content_block_delta', { index, delta: { type: 'text_delta', text: block.text } })
		} else {
			say('content_block_start', { index, content_block: { ...block, input: {} } })
			say('content_block_delta', { index, delta: { type: 'input_json_delta', partial_json: JSON.stringify(block.input) } })
		}
		say('content_block_stop', { index })
	}
	say('message_delta', { delta: { stop_reason: stop, stop_sequence: null }, usage })
	say('message_stop', {})
	res.end()
}

server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`))

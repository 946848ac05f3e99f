// A Messages API on loopback whose model follows a script: it calls the tools
// named on the command line one after the other and then says "done". The address
// is printed once it serves.
//
//	node claude-model.mjs TOOL|TOOL=ARGUMENTS…
//
// ARGUMENTS are JSON, {"text":"hello"} where there are none. The model thinks for $THINK
// milliseconds (default 0) before each call.
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

const script = process.argv.slice(2).map((step) => {
	const [, name, input] = step.match(/^([^=]*)=?(.*)$/s)
	return { name, input: input === '' ? { text: 'hello' } : JSON.parse(input) }
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
		const next = (asked.tools ?? []).length > 0 ? script[results] : undefined
		if (next !== undefined) await sleep(think)
		const block = next === undefined
			? { type: 'text', text: 'done' }
			: { type: 'tool_use', id: `toolu_${results}`, ...next }
		answer(res, asked, block)
	})
})

function json(res, value) {
	res.writeHead(200, { 'content-type': 'application/json' })
	res.end(JSON.stringify(value))
}

function answer(res, asked, block) {
	const usage = { input_tokens: 1, output_tokens: 1 }
	const stop = block.type === 'tool_use' ? 'tool_use' : 'end_turn'
	const message = { id: 'msg_1', type: 'message', role: 'assistant', model: asked.model, content: [], stop_reason: null, stop_sequence: null, usage }
	if (!asked.stream) return json(res, { ...message, content: [block], stop_reason: stop })
	res.writeHead(200, { 'content-type': 'text/event-stream' })
	const say = (type, rest) => res.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`)
	say('message_start', { message })
	if (block.type === 'text') {
		say('content_block_start', { index: 0, content_block: { type: 'text', text: '' } })
		say('content_block_delta', { index: 0, delta: { type: 'text_delta', text: block.text } })
	} else {
		say('content_block_start', { index: 0, content_block: { ...block, input: {} } })
		say('content_block_delta', { index: 0, delta: { type: 'input_json_delta', partial_json: JSON.stringify(block.input) } })
	}
	say('content_block_stop', { index: 0 })
	say('message_delta', { delta: { stop_reason: stop, stop_sequence: null }, usage })
	say('message_stop', {})
	res.end()
}

server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`))

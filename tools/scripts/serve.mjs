// The loop of an MCP server on stdio: each request is answered by the function of its method in
// answers, which takes its params and its id; undefined is no answer yet. other is given what is
// no request.
import readline from 'node:readline'

export const send = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }))
export const text = (content) => ({ content: [{ type: 'text', text: content }] })

export function serve(name, answers, other = () => {}) {
	const all = {
		initialize: (p) => ({ protocolVersion: p.protocolVersion, capabilities: { tools: { listChanged: true } }, serverInfo: { name, version: '1' } }),
		ping: () => ({}),
		...answers,
	}
	readline.createInterface({ input: process.stdin }).on('line', async (line) => {
		const message = JSON.parse(line)
		const { id, method, params } = message
		if (id === undefined || method === undefined) return other(message)
		if (!all[method]) return send({ id, error: { code: -32601, message: `no ${method}` } })
		const result = await all[method](params, id)
		if (result !== undefined) send({ id, result })
	})
}

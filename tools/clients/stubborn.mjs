// An MCP server on stdio that heeds neither the end of its input nor SIGTERM. Its
// tool "echo" answers with its text; "hang" never does, and says in the file $HUNG
// that it has begun.
import fs from 'node:fs'
import readline from 'node:readline'

process.on('SIGTERM', () => {})
process.on('SIGINT', () => {})
setInterval(() => {}, 1000)

const tool = (name) => ({ name, description: name, inputSchema: { type: 'object', properties: { text: { type: 'string' } } }, annotations: { readOnlyHint: true } })
const tools = {
	echo: (args) => ({ content: [{ type: 'text', text: `echo: ${args.text}` }] }),
	hang: () => { fs.writeFileSync(process.env.HUNG, 'begun\n') },
}
const answers = {
	initialize: (p) => ({ protocolVersion: p.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'stubborn', version: '1' }, instructions: 'Echo first.' }),
	ping: () => ({}),
	'tools/list': () => ({ tools: Object.keys(tools).map(tool) }),
	'tools/call': (p) => tools[p.name](p.arguments),
}

readline.createInterface({ input: process.stdin }).on('line', (line) => {
	const { id, method, params } = JSON.parse(line)
	if (id === undefined || method === undefined) return
	if (!answers[method]) return console.log(JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: `no ${method}` } }))
	const result = answers[method](params)
	if (result !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, result }))
})

// An MCP server on stdio that heeds neither the end of its input nor SIGTERM. Its
// tool "echo" answers with its text; "hang" never does, and says in the file $HUNG
// that it has begun and was cancelled; "together" answers once two of its calls are open;
// "find" answers with a path, and "read" with what stands there;
// "grow" makes a tool "late" appear; "ask" asks the user, and answers with what was chosen.
import fs from 'node:fs'
import readline from 'node:readline'

process.on('SIGTERM', () => {})
process.on('SIGINT', () => {})
setInterval(() => {}, 1000)

const send = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }))
const tool = (name) => ({ name, description: name, inputSchema: { type: 'object', properties: { text: { type: 'string' }, path: { type: 'string' } } }, annotations: { readOnlyHint: true } })
const said = (text) => ({ content: [{ type: 'text', text }] })
const tools = {
	echo: (args) => said(`echo: ${args.text}`),
	hang: () => { fs.writeFileSync(process.env.HUNG, 'begun\n') },
	together: (args, id) => {
		waiting.push({ id, result: said(`together: ${args.text}`) })
		if (waiting.length >= 2) waiting.splice(0).forEach(send)
	},
	find: (args) => said(args.path),
	read: (args) => said(`read: ${fs.readFileSync(args.path, 'utf8')}`),
	grow: () => {
		tools.late ??= (args) => said(`late: ${args.text}`)
		send({ method: 'notifications/tools/list_changed' })
		return said('grown')
	},
	ask: (args, id) => {
		asking = id
		send({ id: 'question', method: 'elicitation/create', params: { message: 'Shall it be?', requestedSchema: { type: 'object', properties: {} } } })
	},
}
const waiting = []
let asking
const answers = {
	initialize: (p) => ({ protocolVersion: p.protocolVersion, capabilities: { tools: { listChanged: true } }, serverInfo: { name: 'stubborn', version: '1' }, instructions: 'Echo first.' }),
	ping: () => ({}),
	'tools/list': () => ({ tools: Object.keys(tools).map(tool) }),
	'tools/call': (p, id) => tools[p.name](p.arguments, id),
}

readline.createInterface({ input: process.stdin }).on('line', (line) => {
	const { id, method, params, result: answer } = JSON.parse(line)
	if (id === 'question') return send({ id: asking, result: said(`asked: ${answer?.action}`) })
	if (method === 'notifications/cancelled') fs.appendFileSync(process.env.HUNG, 'cancelled\n')
	if (id === undefined || method === undefined) return
	if (!answers[method]) return send({ id, error: { code: -32601, message: `no ${method}` } })
	const result = answers[method](params, id)
	if (result !== undefined) send({ id, result })
})

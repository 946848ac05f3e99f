// An MCP server on stdio that heeds neither the end of its input nor SIGTERM. Its
// tool "echo" answers with its text; "hang" never does, and says in the file $HUNG
// that it has begun and was cancelled; "together" answers once two of its calls are open;
// "find" answers with a path, and "read" with what stands there;
// "grow" makes a tool "late" appear; "ask" asks the user, and answers with what was chosen.
import fs from 'node:fs'
import { send, serve, text } from '../scripts/serve.mjs'

process.on('SIGTERM', () => {})
process.on('SIGINT', () => {})
setInterval(() => {}, 1000)

const tool = (name) => ({ name, description: name, inputSchema: { type: 'object', properties: { text: { type: 'string' }, path: { type: 'string' } } }, annotations: { readOnlyHint: true } })
const tools = {
	echo: (args) => text(`echo: ${args.text}`),
	hang: () => { fs.writeFileSync(process.env.HUNG, 'begun\n') },
	together: (args, id) => {
		waiting.push({ id, result: text(`together: ${args.text}`) })
		if (waiting.length >= 2) waiting.splice(0).forEach(send)
	},
	find: (args) => text(args.path),
	read: (args) => text(`read: ${fs.readFileSync(args.path, 'utf8')}`),
	grow: () => {
		tools.late ??= (args) => text(`late: ${args.text}`)
		send({ method: 'notifications/tools/list_changed' })
		return text('grown')
	},
	ask: (args, id) => {
		asking = id
		send({ id: 'question', method: 'elicitation/create', params: { message: 'Shall it be?', requestedSchema: { type: 'object', properties: {} } } })
	},
}
const waiting = []
let asking

serve('stubborn', {
	'tools/list': () => ({ tools: Object.keys(tools).map(tool) }),
	'tools/call': (p, id) => tools[p.name](p.arguments, id),
}, ({ id, method, result }) => {
	if (id === 'question') send({ id: asking, result: text(`asked: ${result?.action}`) })
	if (method === 'notifications/cancelled') fs.appendFileSync(process.env.HUNG, 'cancelled\n')
})

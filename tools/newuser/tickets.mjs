// An MCP server on stdio for tickets of a service elsewhere, which takes 400 ms for each
// call. Its settings name the service's host (TICKETS_URL), and it never connects to it:
// the tickets are made up from their ids.
import readline from 'node:readline'

const latency = 400 // milliseconds
const text = { type: 'string' }
const tool = (name, description, properties, annotations) =>
	({ name, description, inputSchema: { type: 'object', properties, required: Object.keys(properties) }, annotations })
const list = [
	tool('list_tickets', 'The tickets of a sprint.', { sprint: text }, { readOnlyHint: true }),
	tool('get_ticket', 'One ticket.', { id: text }, { readOnlyHint: true }),
	tool('list_comments', 'The comments on a ticket.', { id: text }, { readOnlyHint: true }),
	tool('close_ticket', 'Closes a ticket.', { id: text }, { destructiveHint: true }),
]
const calls = {
	list_tickets: ({ sprint }) => ({ tickets: [1, 2, 3].map((n) => ({ id: `${sprint}-${n}`, title: `Ticket ${n} of ${sprint}` })) }),
	get_ticket: ({ id }) => ({ id, title: `Ticket ${id}`, state: 'open', text: 'The page is slow.' }),
	list_comments: ({ id }) => ({ ticket: id, comments: [{ by: 'ada', text: `About ${id}: it is.` }] }),
	close_ticket: ({ id }) => ({ id, state: 'closed' }),
}
const answers = {
	initialize: (p) => ({ protocolVersion: p.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'tickets', version: '1' } }),
	ping: () => ({}),
	'tools/list': () => ({ tools: list }),
	'tools/call': (p) => ({ content: [{ type: 'text', text: JSON.stringify(calls[p.name](p.arguments)) }] }),
}

readline.createInterface({ input: process.stdin }).on('line', (line) => {
	const { id, method, params } = JSON.parse(line)
	if (id === undefined || method === undefined) return
	const answer = answers[method] === undefined ? { error: { code: -32601, message: `no ${method}` } } : { result: answers[method](params) }
	setTimeout(() => console.log(JSON.stringify({ jsonrpc: '2.0', id, ...answer })), method === 'tools/call' ? latency : 0)
})

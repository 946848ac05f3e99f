// A day's sessions of an SDK client with the ticket server, through the program that the
// client's file names or, with DIRECT=1, with the server itself. Each line of output is a
// session: how long its reads of tickets took together, in milliseconds.
//
//	node day.mjs CLIENT-FILE SERVER PREFIX FIRST-SPRINT SESSIONS
import fs from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'

const [file, name, prefix, first, sessions] = process.argv.slice(2)
const { command, args = [], env = {} } = JSON.parse(fs.readFileSync(file, 'utf8')).mcpServers[name]
const think = 600 // milliseconds between an answer and the next call

for (let session = 0; session < Number(sessions); session++) {
	const client = new Client({ name: 'day', version: '1' })
	await client.connect(new StdioClientTransport({ command, args, env: { ...process.env, ...env }, stderr: 'ignore' }))
	const sprint = `S${Number(first) + session}`
	let waited = 0
	const read = async (tool, input) => {
		await sleep(think)
		const began = performance.now()
		const result = await client.callTool({ name: prefix + tool, arguments: input })
		waited += performance.now() - began
		if (result.isError) throw new Error(`${tool}: ${JSON.stringify(result)}`)
		return JSON.parse(result.content[0].text)
	}
	await client.listTools()
	for (const { id } of (await read('list_tickets', { sprint })).tickets) {
		for (const [tool, key] of [['get_ticket', 'id'], ['list_comments', 'ticket']]) {
			const got = await read(tool, { id })
			if (got[key] !== id) throw new Error(`${tool} of ${id}: got ${JSON.stringify(got)}`)
		}
	}
	console.log(Math.round(waited))
	await client.close()
}

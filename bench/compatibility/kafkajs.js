// One call of kafkajs: node kafkajs.js NAME, with the case as JSON on the standard input. It prints
// the result as JSON, or the error, with exit code 1.

const fs = require('node:fs')
const {
  AclOperationTypes, AclPermissionTypes, AclResourceTypes, CompressionTypes, ConfigResourceTypes,
  Kafka, ResourcePatternTypes, logLevel,
} = require('kafkajs')

const asked = JSON.parse(fs.readFileSync(0, 'utf8'))
const { name, brokers } = asked
const kafka = new Kafka({
  clientId: 'compatibility',
  brokers: asked.servers.split(','),
  logLevel: logLevel.NOTHING,
  retry: { retries: 4 },
})

const acl = {
  resourceType: AclResourceTypes.TOPIC,
  resourceName: name,
  resourcePatternType: ResourcePatternTypes.LITERAL,
  principal: `User:${name}`,
  host: '*',
  operation: AclOperationTypes.READ,
  permissionType: AclPermissionTypes.ALLOW,
}
const topicResource = { type: ConfigResourceTypes.TOPIC, name }
const brokerResource = { type: ConfigResourceTypes.BROKER, name: String(brokers[0]) }

async function asAdmin(ask) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await ask(admin)
  } finally {
    await admin.disconnect()
  }
}

const records = () => ({
  topic: name,
  acks: asked.acks === 'all' ? -1 : Number(asked.acks),
  compression: asked.codec === 'gzip' ? CompressionTypes.GZIP : CompressionTypes.None,
  messages: asked.values.map(value => ({ value, partition: 0 })),
})

async function produce(options) {
  const producer = kafka.producer(options)
  await producer.connect()
  try {
    return await producer.send(records())
  } finally {
    await producer.disconnect()
  }
}

async function produceTransaction() {
  const producer = kafka.producer({ transactionalId: name, maxInFlightRequests: 1, idempotent: true })
  await producer.connect()
  try {
    const transaction = await producer.transaction()
    await transaction.send(records())
    await transaction.commit()
  } finally {
    await producer.disconnect()
  }
}

async function consumeInGroup() {
  const consumer = kafka.consumer({ groupId: name })
  await consumer.connect()
  await consumer.subscribe({ topic: name, fromBeginning: true })
  const found = []
  try {
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
      consumer.run({
        autoCommit: false,
        eachMessage: async ({ message, partition }) => {
          found.push(message.value.toString())
          const next = String(Number(message.offset) + 1)
          await consumer.commitOffsets([{ topic: name, partition, offset: next }])
          if (found.length === asked.values.length) resolve()
        },
      }).catch(reject)
    })
  } finally {
    await consumer.disconnect()
  }
  return found
}

const calls = {
  describeCluster: () => asAdmin(admin => admin.describeCluster()),
  createTopic: () => asAdmin(admin => admin.createTopics({
    topics: [{
      topic: name,
      numPartitions: 2,
      replicationFactor: 2,
      configEntries: [{ name: asked.retention[0], value: asked.retention[1] }],
    }],
  })),
  listTopics: () => asAdmin(admin => admin.listTopics()),
  describeTopic: () => asAdmin(admin => admin.fetchTopicMetadata({ topics: [name] })),
  addPartitions: () => asAdmin(admin => admin.createPartitions({
    topicPartitions: [{ topic: name, count: 3 }],
  })),
  deleteTopic: () => asAdmin(admin => admin.deleteTopics({ topics: [name] })),
  describeTopicConfig: () => asAdmin(admin => admin.describeConfigs({
    includeSynonyms: false, resources: [topicResource],
  })),
  describeBrokerConfig: () => asAdmin(admin => admin.describeConfigs({
    includeSynonyms: false, resources: [brokerResource],
  })),
  alterTopicConfig: () => asAdmin(admin => admin.alterConfigs({
    validateOnly: false,
    resources: [{ ...topicResource, configEntries: [{ name: asked.retention[0], value: '600000' }] }],
  })),
  alterBrokerConfig: () => asAdmin(admin => admin.alterConfigs({
    validateOnly: false,
    resources: [{
      ...brokerResource, configEntries: [{ name: asked.brokerSetting[0], value: asked.brokerSetting[1] }],
    }],
  })),
  createAcl: () => asAdmin(admin => admin.createAcls({ acl: [acl] })),
  listAcls: () => asAdmin(admin => admin.describeAcls(acl)),
  deleteAcl: () => asAdmin(admin => admin.deleteAcls({ filters: [acl] })),
  listOffsets: () => asAdmin(admin => admin.fetchTopicOffsets(name)),
  // It looks for the leader among the topics that it has asked for before.
  deleteRecords: () => asAdmin(async admin => {
    await admin.fetchTopicOffsets(name)
    await admin.deleteTopicRecords({
      topic: name, partitions: [{ partition: 0, offset: String(asked.keptFrom) }],
    })
  }),
  reassign: () => asAdmin(admin => admin.alterPartitionReassignments({
    topics: [{ topic: name, partitionAssignment: [{ partition: 0, replicas: brokers.slice(1, 3) }] }],
  })),
  listReassignments: () => asAdmin(admin => admin.listPartitionReassignments({
    topics: [{ topic: name, partitions: [0] }],
  })),
  produce: () => produce({}),
  produceIdempotent: () => produce({ idempotent: true, maxInFlightRequests: 1 }),
  produceTransaction,
  consumeInGroup,
  listGroups: () => asAdmin(admin => admin.listGroups()),
  describeGroup: () => asAdmin(async admin => [
    await admin.describeGroups([name]), await admin.fetchOffsets({ groupId: name, topics: [name] }),
  ]),
  resetGroup: () => asAdmin(admin => admin.setOffsets({
    groupId: name, topic: name, partitions: [{ partition: 0, offset: '0' }],
  })),
  deleteGroup: () => asAdmin(admin => admin.deleteGroups([name])),
}

const shown = (_, value) => (typeof value === 'bigint' ? String(value) : value)

calls[process.argv[2]]().then(
  result => {
    console.log(JSON.stringify(result === undefined ? null : result, shown))
    process.exit(0)
  },
  error => {
    const causes = (error.errors || []).map(String).join('; ')
    console.error(`${error.name} ${error.type || ''}: ${error.message} ${causes}`)
    process.exit(1)
  },
)
